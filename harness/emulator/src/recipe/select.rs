//! From what a recipe writes for layers to the layers of a network.

use std::collections::BTreeMap;

use fidelity_references::Architecture;
use fidelity_trace::nearest;

use super::{
    error::{Fault, Problem},
    layers::{Kind, Layer, Role},
    names::LayerNames,
    script::{Spanned, Value},
};

/// Layers of a network by name.
pub(crate) struct Selection<'a> {
    pub(crate) architecture: &'a Architecture,
    pub(crate) layers: &'a [Layer],
    pub(crate) names: &'a LayerNames,
    /// `name = [layers]` of the script so far: whether each layer is in it.
    pub(crate) groups: &'a BTreeMap<String, Vec<bool>>,
    /// Kernels with more than 90 % zeros are asked about.
    pub(crate) sparse: bool,
}

impl Selection<'_> {
    /// Whether each layer is meant.
    pub(crate) fn of(&self, selector: &Spanned<Value>) -> Result<Vec<bool>, Problem> {
        let mut selected = vec![false; self.layers.len()];
        self.add(selector, &mut selected)?;
        Ok(selected)
    }

    fn add(&self, selector: &Spanned<Value>, selected: &mut [bool]) -> Result<(), Problem> {
        match &selector.value {
            Value::List(values) => values.iter().try_for_each(|value| self.add(value, selected)),
            Value::Word(name) => match self.groups.get(name) {
                Some(group) => {
                    selected.iter_mut().zip(group).for_each(|(selected, member)| *selected |= member);
                    Ok(())
                }
                None => self.add_named(name, selector, selected),
            },
            Value::Glob(pattern) => match Role::named(pattern) {
                Some(role) => {
                    self.mark(selected, |layer| role.is_played_by(layer, self.architecture, self.sparse));
                    Ok(())
                }
                None if pattern.contains(['*', '?']) => self.add_matching(pattern, selector, selected),
                None => self.add_named(pattern, selector, selected),
            },
        }
    }

    /// The host feeds the embedding's rows as 16-bit codes, whatever is said of all layers: only its own name means it.
    fn add_matching(&self, pattern: &str, selector: &Spanned<Value>, selected: &mut [bool]) -> Result<(), Problem> {
        let matches = |layer: &Layer| {
            layer.kind != Kind::Embedding && (glob(pattern, &layer.name()) || glob(pattern, layer.kind.name()))
        };
        let mapped: Vec<&str> = self.names.matching(|name| glob(pattern, name)).collect();
        match self.mark(selected, matches) + mapped.len() {
            0 => Err(self.unknown(pattern, selector)),
            _ => mapped.into_iter().try_for_each(|name| self.add_named(name, selector, selected)),
        }
    }

    fn add_named(&self, name: &str, selector: &Spanned<Value>, selected: &mut [bool]) -> Result<(), Problem> {
        let one = |name: &str, selected: &mut [bool]| match self
            .mark(selected, |layer| layer.name() == name || layer.kind.name() == name)
        {
            0 => Err(self.unknown(name, selector)),
            _ => Ok(()),
        };
        match self.names.get(name) {
            Some(ours) => ours.iter().try_for_each(|name| one(name, selected)),
            None => one(name, selected),
        }
    }

    fn mark(&self, selected: &mut [bool], is_meant: impl Fn(&Layer) -> bool) -> usize {
        let mut count = 0;
        for (selected, layer) in selected.iter_mut().zip(self.layers) {
            if is_meant(layer) {
                *selected = true;
                count += 1;
            }
        }
        count
    }

    fn unknown(&self, name: &str, selector: &Spanned<Value>) -> Problem {
        let mut kinds: Vec<Kind> = self.layers.iter().map(|layer| layer.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let kinds: Vec<&str> = kinds.into_iter().map(Kind::name).collect();
        let roles = Role::ALL.map(Role::name);
        let last = name.rsplit('.').next().unwrap_or(name);
        let known = format!(
            "{} (in every block; in one as `blocks.0.q_proj`), roles {{{}}}; a compiler's own names need --layer-names",
            kinds.join(", "),
            roles.join("}, {")
        );
        let nearest = nearest(last, kinds.into_iter().chain(roles)).map(str::to_owned);
        Fault::Unknown { what: "layer", name: name.to_owned(), nearest, known }.at(selector.span.clone())
    }
}

/// `*` stands for any characters, `?` for one.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last `*` stands, and from where on it is tried next.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn globs_match_whole_names() {
        assert!(
            glob("*", "")
                && glob("conv*", "conv12")
                && glob("*_proj", "q_proj")
                && glob("blocks.?.q*", "blocks.3.q_proj")
        );
        assert!(glob("*a*b*", "xaxbx") && glob("a*a*a", "aXaaYa"));
        assert!(!glob("conv", "conv1") && !glob("?", "") && !glob("*_projx", "q_proj") && !glob("a*b", "abc"));
    }
}
