//! Which sites a trace keeps.

use crate::{BlockSite, Site, nearest};

/// A selection of sites. `logits` is always in it, since a decoder's logits are what is judged; [`Taps::with`] adds others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taps {
    /// `embed`, every `resid_mid` and `resid_post`, `final_norm`, `logits`, `pooled`.
    Default,
    /// Every site.
    All,
    /// The listed sites.
    List(Vec<Tap>),
}

/// One entry of a tap list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tap {
    /// Exactly this site.
    Site(Site),
    /// This site in every block.
    EveryBlock(BlockSite),
}

/// A tap list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapsError {
    /// The name is no site.
    #[error("--taps: `{name}` is not a site{}; sites are named like `embed`, `resid_post` (every block) or `blocks.3.resid_post`", hint(.nearest.as_deref()))]
    Unknown {
        /// What was given.
        name: String,
        /// The closest existing name.
        nearest: Option<String>,
    },
    /// The block is not in the checkpoint.
    #[error("--taps: `{site}` names block {block}, but the checkpoint has {blocks} blocks (0 to {})", blocks.saturating_sub(1))]
    NoSuchBlock {
        /// The site asked for.
        site: Site,
        /// Its block.
        block: u32,
        /// How many blocks there are.
        blocks: u32,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

impl Taps {
    /// Reads `default`, `all` or a comma-separated list of sites.
    ///
    /// # Errors
    /// A name that is no site.
    pub fn parse(text: &str) -> Result<Self, TapsError> {
        match text.trim() {
            "default" => Ok(Self::Default),
            "all" => Ok(Self::All),
            list => list.split(',').map(|name| parse_tap(name.trim())).collect::<Result<_, _>>().map(Self::List),
        }
    }

    /// Whether the site is kept.
    #[must_use]
    pub fn includes(&self, site: Site) -> bool {
        let by_default = match site {
            Site::Embed | Site::FinalNorm | Site::Logits | Site::Pooled => true,
            Site::Block(_, inner) => matches!(inner, BlockSite::ResidMid | BlockSite::ResidPost),
        };
        match self {
            Self::Default => by_default,
            Self::All => true,
            Self::List(taps) => site == Site::Logits || taps.iter().any(|tap| tap.matches(site)),
        }
    }

    /// The same and these sites.
    #[must_use]
    pub fn with(self, sites: &[Site]) -> Self {
        match self {
            Self::List(taps) => Self::List(taps.into_iter().chain(sites.iter().copied().map(Tap::Site)).collect()),
            wider => wider,
        }
    }

    /// The sites that were asked for by name, and of blocks those of block 0, in the order of the list.
    #[must_use]
    pub fn named(&self) -> Vec<Site> {
        let Self::List(taps) = self else { return Vec::new() };
        let site = |tap: &Tap| match *tap {
            Tap::Site(site) => site,
            Tap::EveryBlock(kind) => Site::Block(0, kind),
        };
        taps.iter().map(site).collect()
    }

    /// Checks that every listed block exists.
    ///
    /// # Errors
    /// A block at or past `blocks`.
    pub fn check(&self, blocks: u32) -> Result<(), TapsError> {
        let Self::List(taps) = self else { return Ok(()) };
        for tap in taps {
            if let Tap::Site(site) = *tap
                && let Some(block) = site.block().filter(|block| *block >= blocks)
            {
                return Err(TapsError::NoSuchBlock { site, block, blocks });
            }
        }
        Ok(())
    }
}

impl Tap {
    fn matches(self, site: Site) -> bool {
        match self {
            Self::Site(only) => only == site,
            Self::EveryBlock(kind) => matches!(site, Site::Block(_, inner) if inner == kind),
        }
    }
}

fn parse_tap(name: &str) -> Result<Tap, TapsError> {
    if let Some(site) = BlockSite::named(name) {
        return Ok(Tap::EveryBlock(site));
    }
    name.parse().map(Tap::Site).map_err(|_| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let known = BlockSite::ALL.map(BlockSite::name);
        let nearest = nearest(last, known.into_iter().chain(["embed", "final_norm", "logits", "pooled"]));
        TapsError::Unknown { name: name.to_owned(), nearest: nearest.map(str::to_owned) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_always_kept() {
        let taps = Taps::parse("q, blocks.1.resid_post").expect("valid");
        assert!(taps.includes(Site::Logits));
        assert!(taps.includes(Site::Block(7, BlockSite::Q)));
        assert!(taps.includes(Site::Block(1, BlockSite::ResidPost)));
        assert!(!taps.includes(Site::Block(0, BlockSite::ResidPost)));
        assert!(taps.check(2).is_ok());
        assert!(taps.check(1).is_err());
    }

    #[test]
    fn a_typo_is_answered_with_the_nearest_name() {
        let error = Taps::parse("resid_pots").expect_err("typo").to_string();
        assert!(error.contains("did you mean `resid_post`?"), "{error}");
    }
}
