//! A grammar of short children's stories: an endless, seeded supply of text in which names, pronouns and things recur
//! over the whole story, so that a model has to look back to predict the next word.

mod cast;
mod plots;
mod words;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use cast::Cast;
use plots::{Beat, OPENINGS, PLOTS};

/// One generated story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Name of the plot it follows, one of [`plot_names`].
    pub plot: &'static str,
    /// The text: one line, single spaces, ends with a full stop or a closing quotation mark.
    pub text: String,
}

/// The endless sequence of stories that belongs to a seed; plots are drawn uniformly.
#[derive(Debug)]
pub struct Stories {
    rng: ChaCha8Rng,
}

impl Stories {
    /// The sequence for `seed`, from its beginning.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed) }
    }
}

impl Iterator for Stories {
    type Item = Story;

    fn next(&mut self) -> Option<Story> {
        let plot = pick(PLOTS, &mut self.rng);
        let cast = Cast::draw(&mut self.rng);
        let mut sentences = Vec::new();
        tell(&OPENINGS, &cast, &mut self.rng, &mut sentences);
        for beat in plot.beats {
            tell(beat, &cast, &mut self.rng, &mut sentences);
        }
        Some(Story { plot: plot.name, text: sentences.join(" ") })
    }
}

/// The names of all plots, in a fixed order.
#[must_use]
pub fn plot_names() -> Vec<&'static str> {
    PLOTS.iter().map(|plot| plot.name).collect()
}

fn pick<T: Copy>(items: &[T], rng: &mut ChaCha8Rng) -> T {
    items[rng.random_range(0..items.len())]
}

fn tell(beat: &Beat, cast: &Cast, rng: &mut ChaCha8Rng, sentences: &mut Vec<String>) {
    match beat {
        Beat::Say(choices) => sentences.push(sentence(pick(choices, rng), cast, rng)),
        Beat::Maybe(choices) => {
            if rng.random_bool(0.4) {
                sentences.push(sentence(pick(choices, rng), cast, rng));
            }
        }
        Beat::Swap(one, other) => {
            let (first, second) = if rng.random_bool(0.5) { (one, other) } else { (other, one) };
            sentences.push(sentence(pick(first, rng), cast, rng));
            if rng.random_bool(0.5) {
                sentences.push(sentence(pick(second, rng), cast, rng));
            }
        }
    }
}

fn sentence(template: &str, cast: &Cast, rng: &mut ChaCha8Rng) -> String {
    capitalise(&choose_articles(&expand(template, cast, rng)))
}

/// Resolves `[a|b]` by a draw and `{slot}` from the cast.
fn expand(template: &str, cast: &Cast, rng: &mut ChaCha8Rng) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find(['[', '{']) {
        text.push_str(&rest[..start]);
        let close = if rest[start..].starts_with('[') { ']' } else { '}' };
        let end = start + rest[start..].find(close).expect("every bracket of a template is closed");
        let inside = &rest[start + 1..end];
        if close == ']' {
            let choices: Vec<&str> = inside.split('|').collect();
            text.push_str(&expand(pick(&choices, rng), cast, rng));
        } else {
            text.push_str(cast.word(inside));
        }
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    text
}

/// "a" becomes "an" in front of a vowel; the word lists hold no word whose sound and spelling disagree here.
fn choose_articles(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for index in 1..words.len() {
        let vowel = words[index].starts_with(['a', 'e', 'i', 'o', 'u']);
        let article = words[index - 1].trim_start_matches('"');
        if vowel && (article == "a" || article == "A") {
            words[index - 1].push('n');
        }
    }
    words.join(" ")
}

/// Upper-cases the first letter of the text and of each sentence in it.
fn capitalise(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut at_start = true;
    for letter in text.chars() {
        if letter.is_alphabetic() {
            result.push(if at_start { letter.to_ascii_uppercase() } else { letter });
            at_start = false;
        } else {
            result.push(letter);
            // After `!"` or `?"` the sentence may go on (`"Look!" said Tom.`), so templates write that capital.
            at_start |= [". ", "! ", "? ", ".\" "].iter().any(|end| result.ends_with(end));
        }
    }
    result
}

#[cfg(test)]
mod tests;
