//! Who and what one story is about: every slot of a template and the words that fill it.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;

use super::pick;
use super::words::{self, Gender};

/// The filled slots. Drawn once, so that a name, its pronouns and a thing stay the same to the end of the story.
#[derive(Debug)]
pub(super) struct Cast {
    slots: BTreeMap<String, String>,
}

impl Cast {
    pub(super) fn draw(rng: &mut ChaCha8Rng) -> Self {
        let mut cast = Self { slots: BTreeMap::new() };
        cast.draw_people(rng);
        cast.draw_places(rng);
        cast.draw_day(rng);
        cast.draw_things(rng);
        cast
    }

    /// The words for `slot`.
    pub(super) fn word(&self, slot: &str) -> &str {
        self.slots.get(slot).unwrap_or_else(|| panic!("a template names the unknown slot {slot}"))
    }

    fn set(&mut self, slot: &str, word: impl Into<String>) {
        self.slots.insert(slot.to_owned(), word.into());
    }

    fn set_person(&mut self, slot: &str, prefix: &str, (name, gender): (&str, Gender)) {
        self.set(slot, name);
        let [subject, object, possessive, child] = gender.words();
        for (case, word) in [("he", subject), ("him", object), ("his", possessive), ("girl", child)] {
            self.set(&format!("{prefix}{case}"), word);
            self.set(&format!("{prefix}{}", upper_first(case)), upper_first(word));
        }
    }

    fn draw_people(&mut self, rng: &mut ChaCha8Rng) {
        // A girl and a boy, so that a pronoun says which of the two is meant.
        let hero = pick(words::CHILDREN, rng);
        let others: Vec<_> = words::CHILDREN.iter().copied().filter(|(_, gender)| *gender != hero.1).collect();
        let friend = pick(&others, rng);
        self.set_person("hero", "", hero);
        self.set_person("friend", "f.", friend);
        self.set_person("elder", "e.", pick(words::ELDERS, rng));
        self.set_person("worker", "w.", pick(words::WORKERS, rng));
    }

    fn draw_places(&mut self, rng: &mut ChaCha8Rng) {
        let home = pick(words::HOMES, rng);
        self.set("home", home);
        self.set("home_first", upper_first(home));
        let [(preposition, place), (_, place2)] = pick_two(words::PLACES, rng);
        self.set("place", place);
        self.set("at", format!("{preposition} the {place}"));
        self.set("place2", place2);
        self.set("hide", pick(words::HIDES, rng));
        self.set("room", pick(words::ROOMS, rng));
    }

    fn draw_day(&mut self, rng: &mut ChaCha8Rng) {
        let (weather, skies) = pick(words::DAYS, rng);
        let time = pick(words::TIMES, rng);
        self.set("sky", pick(skies, rng));
        let start = match pick(&["One", "On a", ""], rng) {
            "" => format!("One {time}"),
            article => format!("{article} {weather} {time}"),
        };
        self.set("Time", start);
    }

    fn draw_things(&mut self, rng: &mut ChaCha8Rng) {
        let animal = pick(words::ANIMALS, rng);
        let (manner, coat) = (pick(words::MANNERS, rng), pick(words::COATS, rng));
        self.set("animal", animal);
        self.set("beast", format!("{manner} {coat} {animal}"));
        self.set("petname", pick(words::PET_NAMES, rng));
        let [colour, apron] = pick_two(words::COLOURS, rng);
        let thing = pick(words::TOYS, rng);
        self.set("thing", thing);
        self.set("toy", format!("{colour} {thing}"));
        self.set("colour", apron);
        let [food, food2] = pick_two(words::FOODS, rng);
        self.set("food", food);
        self.set("food2", food2);
        self.set("dish", pick(words::DISHES, rng));
        let ingredient = pick(words::INGREDIENTS, rng);
        self.set("ingredient", ingredient);
        self.set("was", if ingredient == "eggs" { "were" } else { "was" });
        let (plant, fruit) = pick(words::PLANTS, rng);
        self.set("plant", plant);
        self.set("fruit", fruit);
    }
}

/// Two different items.
fn pick_two<T: Copy + PartialEq>(items: &[T], rng: &mut ChaCha8Rng) -> [T; 2] {
    let first = pick(items, rng);
    loop {
        let second = pick(items, rng);
        if second != first {
            return [first, second];
        }
    }
}

fn upper_first(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}
