//! The plots: what happens, in which order, in which words. Data only; [`super`] expands it.
//!
//! `[a|b]` picks one; `{slot}` is filled from the story's cast. Pronoun slots are written in the masculine (`{he}`,
//! `{him}`, `{his}` for the hero, with `f.`, `e.` and `w.` in front for friend, elder and worker) because only there
//! do the three cases differ.

mod helping;
mod learning;
mod seeking;
mod sharing;

/// One step of a plot.
#[derive(Debug)]
pub(super) enum Beat {
    /// One of these.
    Say(&'static [&'static str]),
    /// One of these, in some stories.
    Maybe(&'static [&'static str]),
    /// One of each in either order, or one of either.
    Swap(&'static [&'static str], &'static [&'static str]),
}

/// A named sequence of beats.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) name: &'static str,
    pub(super) beats: &'static [Beat],
}

pub(super) const PLOTS: &[&Plot] = &[
    &seeking::LOST,
    &seeking::MAP,
    &seeking::WISH,
    &seeking::NIGHT,
    &helping::HUNGRY,
    &helping::STUCK,
    &helping::STORM,
    &sharing::BAKE,
    &sharing::QUARREL,
    &learning::RACE,
    &learning::SEED,
    &learning::BROKEN,
];

pub(super) const OPENINGS: Beat = Beat::Say(&[
    "Once upon a time there was a [little|young|kind|clever] {girl} named {hero}.",
    "{hero} was a [little|young|happy|kind] {girl} who lived {home}.",
    "There once was a [little|young|happy] {girl} called {hero}.",
    "A [little|young|happy|kind] {girl} named {hero} lived {home}.",
    "{home_first} lived a [little|kind|clever|young] {girl} named {hero}.",
    "{hero} lived {home} with {elder}.",
]);

const SKY: Beat = Beat::Maybe(&["{sky}"]);

const ANIMAL_STAYS: Beat = Beat::Say(&[
    "From that day on, {hero} and the {animal} were [good|best|great] friends.",
    "The {animal} stayed with {hero}, and {he} was never alone again.",
    "After that, the {animal} came to see {hero} every day.",
    "{hero} and the {animal} played together for a long time.",
    "And so {hero} found a new friend.",
]);

const FRIENDS_STAY: Beat = Beat::Say(&[
    "From that day on, {hero} and {friend} were [good|best|great] friends.",
    "{hero} and {friend} laughed all the way home.",
    "The two children played together until it was dark.",
    "After that, {hero} and {friend} met {at} every day.",
]);

const HOME_AGAIN: Beat = Beat::Maybe(&[
    "That night, {hero} fell asleep with a smile.",
    "{hero} ran home and told {elder} [all about it|the whole story].",
    "It was the best day of the [year|week|month].",
    "{hero} was very [happy|proud].",
]);

const GOOD_NIGHT: Beat =
    Beat::Maybe(&["That night, {hero} slept very well.", "{hero} never forgot that day.", "It was a good day."]);
