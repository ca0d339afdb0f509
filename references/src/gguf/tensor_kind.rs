//! How a tensor's values are stored.

use candle_core::quantized::GgmlDType;

/// Kinds that Candle dequantises, by the format's number.
const READABLE: [(u32, GgmlDType); 13] = [
    (0, GgmlDType::F32),
    (1, GgmlDType::F16),
    (2, GgmlDType::Q4_0),
    (3, GgmlDType::Q4_1),
    (6, GgmlDType::Q5_0),
    (7, GgmlDType::Q5_1),
    (8, GgmlDType::Q8_0),
    (10, GgmlDType::Q2K),
    (11, GgmlDType::Q3K),
    (12, GgmlDType::Q4K),
    (13, GgmlDType::Q5K),
    (14, GgmlDType::Q6K),
    (30, GgmlDType::BF16),
];

/// Kinds of the format that are not read.
const OTHERS: [(u32, &str); 21] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
];

/// The kind of that number, or how an error calls it.
pub(super) fn tensor_kind(number: u32) -> Result<GgmlDType, String> {
    if let Some((_, kind)) = READABLE.iter().find(|(id, _)| *id == number) {
        return Ok(*kind);
    }
    let name = OTHERS.iter().find(|(id, _)| *id == number).map_or("unknown", |(_, name)| *name);
    Err(format!("{number} ({name})"))
}

/// What can be read, for errors.
pub(super) fn readable_kinds() -> String {
    READABLE.map(|(_, kind)| format!("{kind:?}")).join(", ")
}
