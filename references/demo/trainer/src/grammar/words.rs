//! The word lists a story draws from. Every list is drawn from once a story, so a word that fits a slot must fit it
//! in every plot.

/// Which pronouns stand for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gender {
    She,
    He,
}

impl Gender {
    /// Subject, object and possessive pronoun, then the word for a child.
    pub(super) fn words(self) -> [&'static str; 4] {
        match self {
            Self::She => ["she", "her", "her", "girl"],
            Self::He => ["he", "him", "his", "boy"],
        }
    }
}

use Gender::{He, She};

pub(super) const CHILDREN: &[(&str, Gender)] = &[
    ("Mia", She),
    ("Lily", She),
    ("Anna", She),
    ("Rosa", She),
    ("Nora", She),
    ("Ella", She),
    ("Tom", He),
    ("Ben", He),
    ("Sam", He),
    ("Max", He),
    ("Leo", He),
    ("Jack", He),
];

pub(super) const ELDERS: &[(&str, Gender)] =
    &[("Grandma", She), ("Mother", She), ("Aunt May", She), ("Grandpa", He), ("Father", He), ("Uncle Bob", He)];

pub(super) const WORKERS: &[(&str, Gender)] = &[
    ("the baker", She),
    ("the teacher", She),
    ("the old queen", She),
    ("the farmer", He),
    ("the fisherman", He),
    ("the gardener", He),
];

pub(super) const HOMES: &[&str] = &[
    "in a small village",
    "in a big town",
    "on a quiet farm",
    "in a white house",
    "in an old house",
    "at the end of a long road",
];

/// Preposition, then the noun phrase that follows "the".
pub(super) const PLACES: &[(&str, &str)] = &[
    ("in", "forest"),
    ("in", "garden"),
    ("in", "park"),
    ("in", "meadow"),
    ("in", "field"),
    ("by", "river"),
    ("by", "lake"),
    ("by", "pond"),
    ("by", "sea"),
    ("on", "hill"),
    ("on", "beach"),
    ("near", "old bridge"),
    ("near", "mill"),
];

pub(super) const ANIMALS: &[&str] =
    &["dog", "cat", "fox", "rabbit", "bird", "duck", "frog", "horse", "owl", "mouse", "bear", "goat"];

pub(super) const MANNERS: &[&str] =
    &["small", "little", "young", "old", "shy", "happy", "clever", "tiny", "brave", "kind", "funny"];

pub(super) const COATS: &[&str] = &["brown", "black", "white", "grey", "golden", "orange", "red"];

pub(super) const COLOURS: &[&str] = &["red", "blue", "green", "yellow", "white", "purple", "orange", "silver", "pink"];

pub(super) const TOYS: &[&str] =
    &["kite", "ball", "drum", "hat", "boat", "doll", "bell", "lamp", "scarf", "book", "umbrella", "cup"];

/// Mass nouns and plurals that follow "some".
pub(super) const FOODS: &[&str] = &["bread", "cheese", "berries", "nuts", "apples", "cookies"];

pub(super) const DISHES: &[&str] = &["honey cake", "apple pie", "plum cake", "berry pie", "nut cake", "lemon pie"];

pub(super) const INGREDIENTS: &[&str] = &["flour", "sugar", "butter", "milk", "eggs"];

pub(super) const HIDES: &[&str] = &[
    "under a bush",
    "behind a big stone",
    "in the long grass",
    "near an old bench",
    "under a pile of leaves",
    "on top of a wall",
    "inside an empty box",
    "between two trees",
];

/// A plant and what it bears in the end.
pub(super) const PLANTS: &[(&str, &str)] = &[
    ("apple tree", "sweet apples"),
    ("rose", "red flowers"),
    ("sunflower", "a big yellow flower"),
    ("plum tree", "ripe plums"),
    ("bean plant", "long green beans"),
    ("pumpkin", "an orange pumpkin"),
];

/// A day, then the sentences about it that stay true for the whole story.
pub(super) const DAYS: &[(&str, &[&str])] = &[
    ("sunny", &["The sun was warm.", "The sky was blue.", "The sun shone over the fields."]),
    ("windy", &["The wind blew the leaves around.", "The wind was strong.", "The trees moved in the wind."]),
    ("cold", &["There was snow on the ground.", "The air was cold and clear.", "There was ice on the road."]),
    ("cloudy", &["Grey clouds hung in the sky.", "The sky was full of clouds."]),
    ("foggy", &["White fog lay over the fields.", "The fog was thick and soft."]),
    ("warm", &["Birds sang in the trees.", "Bees flew from flower to flower."]),
    ("bright", &["The birds were singing.", "There was not one cloud in the sky."]),
];

pub(super) const TIMES: &[&str] = &["morning", "day", "afternoon", "Sunday", "Saturday"];

pub(super) const ROOMS: &[&str] = &["in the kitchen", "behind the door", "under the stairs", "near the window"];

pub(super) const PET_NAMES: &[&str] = &["Lucky", "Star", "Sunny"];
