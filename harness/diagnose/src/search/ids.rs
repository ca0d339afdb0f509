//! Before any tensor: were the right ids fed?

use super::{ArmPrompt, DiagnoseError, Question};

/// How the ids that an arm was fed differ from those of its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    BosMissing,
    BosDoubled,
    Other,
}

impl Difference {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::BosMissing => "bos_missing",
            Self::BosDoubled => "bos_doubled",
            Self::Other => "tokenizer_mismatch",
        }
    }

    pub(super) const fn sentence(self) -> &'static str {
        match self {
            Self::BosMissing => "the arm was fed its texts without the BOS that the checkpoint's tokenizer puts first",
            Self::BosDoubled => "the arm was fed one BOS more than the checkpoint's tokenizer puts before its texts",
            Self::Other => "the arm was fed other ids than the checkpoint's tokenizer makes of its texts",
        }
    }
}

/// What is wrong with the ids of most prompts that have a text, if the checkpoint has a tokenizer; without one, whether they
/// begin with two BOS.
pub(super) fn difference(question: &Question<'_>, prompts: &[ArmPrompt]) -> Result<Option<Difference>, DiagnoseError> {
    let bos = question.checkpoint.architecture().bos;
    let mut found = Vec::new();
    for prompt in prompts {
        let fed = &prompt.token_ids;
        let doubled = bos.is_some_and(|bos| fed.starts_with(&[bos, bos]));
        let of_text = prompt.text.as_ref().filter(|_| question.checkpoint.tokenizer().is_some());
        let of_text = of_text.map(|text| question.checkpoint.encode(text, question.bos)).transpose();
        let of_text = of_text.map_err(|error| DiagnoseError::Compute(error.to_string()))?;
        found.push(match question.right_ids.get(&prompt.id).cloned().or(of_text) {
            None => doubled.then_some(Difference::BosDoubled),
            Some(ids) if ids == *fed => None,
            Some(ids) if bos.is_some() && ids.first() == bos.as_ref() && ids[1..] == fed[..] => {
                Some(Difference::BosMissing)
            }
            Some(ids) if fed.first() == bos.as_ref() && fed[1..] == ids[..] => Some(Difference::BosDoubled),
            Some(_) => Some(Difference::Other),
        });
    }
    let most = |difference: &Option<Difference>| 2 * found.iter().filter(|it| *it == difference).count() > found.len();
    let kinds = [Difference::BosMissing, Difference::BosDoubled].map(Some);
    Ok(match kinds.into_iter().find(most) {
        Some(kind) => kind,
        None if 2 * found.iter().flatten().count() > found.len() => Some(Difference::Other),
        None => None,
    })
}
