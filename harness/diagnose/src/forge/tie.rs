//! A head of its own, or the embedding as the head.

use super::{
    Draft, ForgeError, Transformation, refused,
    tensors::{Part, Tensors, Values},
};

const HEAD: &str = "lm_head.weight";

/// The head becomes a copy of the embedding.
pub(super) struct Untie;

impl Transformation for Untie {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        if !draft.architecture.tied_head {
            return Err(refused(self, "its head is its own already"));
        }
        draft.architecture.tied_head = false;
        draft.set("tie_word_embeddings", false);
        let embedding = embedding(&*draft.tensors)?;
        draft.tensors = Box::new(Untied { inner: draft.tensors, embedding });
        Ok(draft)
    }

    fn name(&self) -> String {
        "--untie".into()
    }
}

/// The head is dropped where it is the embedding, bit by bit.
pub(super) struct Tie;

impl Transformation for Tie {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        if draft.architecture.tied_head {
            return Err(refused(self, "its head is its embedding already"));
        }
        let embedding = embedding(&*draft.tensors)?;
        let (table, head) = (draft.tensors.read(&embedding)?, draft.tensors.read(HEAD)?);
        let pairs = table.values.iter().zip(&head.values);
        let differing = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        if table.shape != head.shape || differing > 0 {
            let of = head.values.len();
            return Err(refused(self, format!("its head differs from its embedding in {differing} of {of} values")));
        }
        draft.architecture.tied_head = true;
        draft.set("tie_word_embeddings", true);
        draft.tensors = Box::new(Tied(draft.tensors));
        Ok(draft)
    }

    fn name(&self) -> String {
        "--tie".into()
    }
}

fn embedding(tensors: &dyn Tensors) -> Result<String, ForgeError> {
    let names = tensors.shapes().into_iter().map(|(name, _)| name);
    let found = names.into_iter().find(|name| Part::of(name) == Part::Embedding);
    found.ok_or_else(|| ForgeError::NoTensor("model.embed_tokens.weight".into()))
}

struct Untied {
    inner: Box<dyn Tensors>,
    embedding: String,
}

impl Tensors for Untied {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = self.inner.shapes();
        let head = shapes.iter().find(|(name, _)| *name == self.embedding).map(|(_, shape)| shape.clone());
        shapes.extend(head.map(|shape| (HEAD.to_owned(), shape)));
        shapes
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        self.inner.read(if name == HEAD { &self.embedding } else { name })
    }
}

struct Tied(Box<dyn Tensors>);

impl Tensors for Tied {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.0.shapes().into_iter().filter(|(name, _)| name != HEAD).collect()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        self.0.read(name)
    }
}
