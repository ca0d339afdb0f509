//! Before any tensor: were the right ids fed?

use fidelity_trace::BosConvention;
use fidelity_verdict::Diagnosis;

use super::{ArmPrompt, DiagnoseError, Question};

/// How the ids that an arm was fed differ from those of its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    BosMissing,
    BosDoubled,
    Other,
}

/// A diagnosis from ids alone: most prompts with a text have other ids than the checkpoint's tokenizer gives them.
pub(super) fn diagnose(question: &Question<'_>, prompts: &[ArmPrompt]) -> Result<Option<Diagnosis>, DiagnoseError> {
    let _ = (question, prompts, BosConvention::Tokenizer, Difference::Other);
    Ok(None)
}
