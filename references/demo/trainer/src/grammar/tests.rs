//! What has to hold for every story, checked on a few thousand of them.

use std::collections::BTreeSet;

use super::{Stories, plot_names};

const MANY: usize = 5000;

#[test]
fn a_seed_gives_the_same_stories_again_and_another_seed_gives_others() {
    let first: Vec<_> = Stories::new(7).take(50).collect();
    let again: Vec<_> = Stories::new(7).take(50).collect();
    let other: Vec<_> = Stories::new(8).take(50).collect();
    assert_eq!(first, again);
    assert!(first.iter().all(|story| !other.contains(story)));
}

#[test]
fn stories_are_all_different_and_use_every_plot_and_a_few_hundred_words() {
    let stories: Vec<_> = Stories::new(1).take(MANY).collect();
    let texts: BTreeSet<_> = stories.iter().map(|story| &story.text).collect();
    assert_eq!(texts.len(), MANY);
    let plots: BTreeSet<_> = stories.iter().map(|story| story.plot).collect();
    assert_eq!(plots, plot_names().into_iter().collect());
    let words: BTreeSet<_> = stories.iter().flat_map(|story| bare_words(&story.text)).collect();
    assert!((300..=700).contains(&words.len()), "{} different words", words.len());
}

#[test]
fn stories_have_clean_spacing_closed_quotes_and_right_articles() {
    for story in Stories::new(2).take(MANY) {
        let text = &story.text;
        assert!(!text.contains("  ") && text.trim() == text, "{text}");
        assert!(!text.contains(['[', ']', '{', '}', '|', '\n']), "{text}");
        assert_eq!(text.matches('"').count() % 2, 0, "{text}");
        assert!(text.ends_with(['.', '!', '"']), "{text}");
        let words = bare_words(text);
        for pair in words.windows(2) {
            let vowel = pair[1].starts_with(['a', 'e', 'i', 'o', 'u']);
            let wrong = if vowel { "a" } else { "an" };
            assert_ne!(pair[0], wrong, "{pair:?} in {text}");
        }
        let spoken: Vec<&str> = text.split(' ').collect();
        assert!(spoken.windows(2).all(|pair| pair[0] != pair[1]), "a doubled word in {text}");
    }
}

#[test]
fn sentences_start_with_a_capital() {
    for story in Stories::new(3).take(MANY) {
        for end in [". ", ".\" "] {
            for after in story.text.split(end).skip(1) {
                let first = after.trim_start_matches('"').chars().next();
                assert!(first.is_some_and(char::is_uppercase), "{}", story.text);
            }
        }
    }
}

fn bare_words(text: &str) -> Vec<String> {
    let letters = |word: &str| word.trim_matches(|c: char| !c.is_alphabetic()).to_lowercase();
    text.split(' ').map(letters).collect()
}
