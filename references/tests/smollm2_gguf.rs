//! A real Q4_1 file against the folder made from it by another program. Needs both (98 and 538 MB, not in the repository):
//! set `FIDELITY_SMOLLM2` to the folder and `FIDELITY_SMOLLM2_GGUF` to the file.

use std::{env, fs, path::Path};

use fidelity_references::{Checkpoint, WeightFiles};
use safetensors::SafeTensors;

#[test]
fn every_tensor_of_smollm2_is_that_of_its_folder() {
    let (Ok(folder), Ok(file)) = (env::var("FIDELITY_SMOLLM2"), env::var("FIDELITY_SMOLLM2_GGUF")) else {
        eprintln!("did not run: FIDELITY_SMOLLM2 and FIDELITY_SMOLLM2_GGUF are not set");
        return;
    };
    let (folder, file) = (Path::new(&folder), Path::new(&file));
    let from_folder = Checkpoint::open(folder, "smollm2").expect("supported");
    let from_file = Checkpoint::open_gguf(file, "smollm2").expect("supported");
    assert_eq!(from_file.architecture(), from_folder.architecture());
    let bytes = fs::read(folder.join("model.safetensors")).expect("there");
    let expected = SafeTensors::deserialize(&bytes).expect("whole");
    let mut weights = WeightFiles::open_gguf(file).expect("supported");
    let mut values = 0;
    for (name, view) in expected.iter() {
        let tensor = weights.take(name, view.shape()).expect("is there");
        let found: Vec<f32> = tensor.flatten_all().and_then(|flat| flat.to_vec1()).expect("float32");
        let same = found.iter().zip(view.data().as_chunks::<4>().0).all(|(value, quad)| value.to_le_bytes() == *quad);
        assert!(same && found.len() * 4 == view.data().len(), "{name}");
        values += found.len();
    }
    weights.finish().expect("nothing is left over");
    eprintln!("{} tensors, {values} values, all bit-equal", expected.len());
}
