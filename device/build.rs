//! Compiles hef.proto (without protoc) to prost's messages and to the table by which a message is measured before it is decoded.

use std::{collections::BTreeMap, env, error::Error, fmt::Write, fs, path::PathBuf};

use protox::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src/hef/hef.proto");
    find_library();
    let descriptors = protox::compile(["src/hef/hef.proto"], ["src/hef"])?;
    let file = descriptors.file.first().ok_or("protox gave no file")?;
    let table = schema(file)?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("schema.rs"), table)?;
    Ok(())
}

/// An installation that was named may be where the loader does not look by itself.
fn find_library() {
    println!("cargo:rerun-if-env-changed=HAILORT_DIR");
    if let (Some(_), Ok(libraries)) = (env::var_os("HAILORT_DIR"), env::var("DEP_HAILORT_LIBRARIES")) {
        println!("cargo:rustc-link-arg-bins=-Wl,-rpath,{libraries}");
        println!("cargo:rustc-link-arg-tests=-Wl,-rpath,{libraries}");
    }
}

/// `SCHEMA`: an entry a message, with the numbers of its fields.
fn schema(file: &FileDescriptorProto) -> Result<String, Box<dyn Error>> {
    let index: BTreeMap<_, _> = (0..).zip(&file.message_type).map(|(at, message)| (message.name(), at)).collect();
    let mut table = String::from("static SCHEMA: &[Message] = &[\n");
    for message in &file.message_type {
        let fields = message.field.iter().map(|field| entry(field, &index)).collect::<Result<Vec<_>, _>>()?;
        let reserved: Vec<_> = reserved(message).collect();
        let name = message.name();
        writeln!(
            table,
            "    Message {{ decoded_bytes: size_of::<proto::{name}>(), fields: &[{}], reserved: &{reserved:?} }},",
            fields.join(", ")
        )?;
    }
    table.push_str("];\n");
    writeln!(table, "/// Where a walk begins.\nconst HEF: usize = {};", index["Hef"])?;
    Ok(table)
}

fn entry(field: &FieldDescriptorProto, index: &BTreeMap<&str, usize>) -> Result<String, Box<dyn Error>> {
    let kind = match field.r#type() {
        Type::Message => {
            let name = field.type_name().rsplit('.').next().unwrap_or_default();
            format!("Kind::Message({})", index.get(name).ok_or_else(|| format!("{name} is not in the file"))?)
        }
        Type::String => "Kind::Text".into(),
        Type::Bytes => "Kind::Bytes".into(),
        Type::Uint32 | Type::Uint64 | Type::Int32 | Type::Bool => "Kind::Varint".into(),
        Type::Float => "Kind::Fixed32".into(),
        Type::Double => "Kind::Fixed64".into(),
        other => return Err(format!("hef.proto: {other:?} has no place in the table").into()),
    };
    let repeated = field.label() == Label::Repeated;
    Ok(format!("Field {{ number: {}, kind: {kind}, repeated: {repeated} }}", field.number()))
}

/// Reserved numbers as (first, last).
fn reserved(message: &DescriptorProto) -> impl Iterator<Item = (i32, i32)> {
    message.reserved_range.iter().map(|range| (range.start(), range.end() - 1))
}
