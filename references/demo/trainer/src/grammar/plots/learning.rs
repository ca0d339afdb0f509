//! Plots in which the hero learns something.

use super::Beat::{Maybe, Say, Swap};
use super::{FRIENDS_STAY, GOOD_NIGHT, Plot};

pub(super) const RACE: Plot = Plot {
    name: "race",
    beats: &[
        Say(&[
            "[{He}|{hero}] could run very fast.",
            "[{He}|{hero}] liked to run, and {he} ran every day.",
            "[{He}|{hero}] had the fastest feet in the school.",
        ]),
        Say(&[
            "{Time}, there was a big race from the {place} to the {place2}.",
            "{Time}, {worker} held a race from the {place} to the {place2}.",
        ]),
        Say(&["The prize was a {toy}.", "\"The winner gets this {toy}!\" said {worker}."]),
        Say(&[
            "{hero}, {friend} and a {beast} stood at the start. One, two, three, go!",
            "{friend} wanted to win the {thing}, too. A {beast} came to watch.",
        ]),
        Swap(
            &["{hero} ran as fast as the wind.", "{hero} was soon in front."],
            &["The {animal} [cheered|jumped up and down]."],
        ),
        Say(&[
            "But near the {place2}, {friend} fell and hurt {f.his} [knee|foot].",
            "Then {hero} heard a cry. {friend} had fallen down.",
        ]),
        Say(&[
            "{hero} could see the {thing}, but {he} stopped and went back.",
            "\"I can win now,\" thought {hero}. But {he} turned around and ran back.",
        ]),
        Maybe(&[
            "\"Take my arm,\" {he} said. \"We will walk together.\"",
            "[{He}|{hero}] helped {friend} up and gave {f.him} some water.",
        ]),
        Say(&[
            "The {animal} came in first, but it gave the {toy} to {hero}. \"You are the true winner,\" it said.",
            "They came in last, but everybody cheered. {worker} gave the {toy} to both of them.",
        ]),
        FRIENDS_STAY,
    ],
};

pub(super) const SEED: Plot = Plot {
    name: "seed",
    beats: &[
        Say(&[
            "{Time}, {elder} gave {him} a [tiny|small] seed. \"This will be a {plant},\" {e.he} said.",
            "{Time}, {worker} gave {him} a [tiny|small] seed. \"One day it will be a {plant},\" {w.he} said.",
        ]),
        Say(&[
            "{hero} planted the seed {at} and gave it some water.",
            "[{He}|{hero}] made a hole in the ground {at} and put the seed into it.",
        ]),
        Maybe(&[
            "Every morning {he} ran to the {place}, but there was nothing to see.",
            "[{He}|{hero}] waited and waited, but nothing grew.",
        ]),
        Swap(&["\"Why does it not grow?\" {hero} asked {elder}."], &["[{He}|{hero}] gave it water every day."]),
        Maybe(&[
            "\"Good things need time,\" said {elder}. \"You must wait.\"",
            "\"Do not give up,\" {elder} told {him}.",
        ]),
        Maybe(&[
            "One night, a {beast} wanted to dig up the seed, but {hero} sent it away.",
            "A {beast} came and sat next to the seed. It waited, too.",
        ]),
        Say(&[
            "Then the rain came, and after the rain {he} saw a small green leaf.",
            "After three weeks, a green leaf looked out of the ground.",
        ]),
        Maybe(&["\"It is growing!\" {he} called.", "{hero} jumped for joy."]),
        Say(&[
            "The {plant} grew and grew. In the end, it had {fruit}.",
            "Every week the {plant} was a little taller. One day {he} saw {fruit} on it.",
        ]),
        Say(&[
            "{hero} called {elder} and {friend}, and they all looked at it with joy.",
            "{hero} showed everything to {elder}, and {e.he} was very proud of {him}.",
        ]),
        GOOD_NIGHT,
    ],
};

pub(super) const BROKEN: Plot = Plot {
    name: "broken",
    beats: &[
        Say(&[
            "{elder} had a {toy} that {e.he} loved very much.",
            "On the shelf stood a {toy}. It belonged to {elder}.",
        ]),
        Maybe(&[
            "\"Please do not play with the {thing},\" {elder} always said.",
            "{elder} had told {hero} not to touch the {thing}.",
        ]),
        Say(&[
            "{Time}, {elder} was {at}, and {hero} was alone at home.",
            "{Time}, {elder} went to the {place}, and {hero} stayed in the house.",
        ]),
        Say(&[
            "[{He}|{hero}] took the {thing} in {his} hands. It slipped and broke.",
            "[{He}|{hero}] played with the {thing}. It fell to the floor and broke.",
        ]),
        Swap(&["{hero} felt very bad."], &["\"{elder} will be so angry,\" {he} thought."]),
        Maybe(&[
            "First {he} wanted to hide the {thing}. But {he} knew that this was wrong.",
            "\"I could say that the {animal} did it,\" {he} thought. But {he} did not want to tell a lie.",
        ]),
        Say(&[
            "When {elder} came back, {hero} told {e.him} the truth. \"I broke your {toy}. I am sorry,\" {he} said.",
            "[{He}|{hero}] waited at the door for {elder}. \"I broke the {thing},\" {he} said, and {he} began to cry.",
        ]),
        Say(&[
            "{elder} was sad, but {e.he} was not angry. \"Thank you for telling me the truth,\" {e.he} said.",
            "{elder} took {hero} in {e.his} arms. \"A {thing} can be fixed,\" {e.he} said.",
        ]),
        Maybe(&[
            "They got some glue and fixed the {toy} together.",
            "Together they took the {toy} to {worker}, and {w.he} fixed it.",
        ]),
        HOME_AGAIN_TRUTH,
    ],
};

const HOME_AGAIN_TRUTH: super::Beat = Say(&[
    "From that day on, {hero} always told the truth.",
    "{hero} was glad that {he} had told the truth.",
    "The {thing} was not perfect any more, but {elder} loved it even more.",
]);
