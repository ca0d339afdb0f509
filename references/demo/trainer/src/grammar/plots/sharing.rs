//! Plots about giving and sharing.

use super::Beat::{Maybe, Say, Swap};
use super::{FRIENDS_STAY, Plot, SKY};

pub(super) const BAKE: Plot = Plot {
    name: "bake",
    beats: &[
        Say(&[
            "{Time}, [{he}|{hero}] wanted to make a {dish} for {elder}.",
            "It was the birthday of {elder}, and {hero} wanted to bake a {dish}.",
            "{Time}, {elder} was ill, so {hero} decided to bake a {dish} for {e.him}.",
        ]),
        Swap(
            &["[{He}|{hero}] washed {his} hands.", "[{He}|{hero}] put on {his} {colour} apron."],
            &["[{He}|{hero}] took out a big bowl.", "[{He}|{hero}] opened the old cookbook."],
        ),
        Say(&[
            "But there {was} no {ingredient} in the kitchen.",
            "\"Oh no,\" said {hero}. \"We have no {ingredient}!\"",
        ]),
        Say(&[
            "So {he} went to {worker} and asked, \"May I have some {ingredient}, please?\"",
            "[{He}|{hero}] ran to {worker}. \"I need some {ingredient} for a {dish},\" {he} said.",
        ]),
        Say(&[
            "\"Of course,\" said {worker}, and {w.he} gave {him} some {ingredient}.",
            "{worker} smiled. \"Take what you need,\" {w.he} said.",
        ]),
        Maybe(&["{hero} thanked {w.him} and ran back home.", "Back at home, {hero} mixed everything in the bowl."]),
        Say(&[
            "When the {dish} was ready, {he} gave it to {elder}.",
            "At last the {dish} was done. {He} put it on the table in front of {elder}.",
        ]),
        Say(&[
            "\"This is the best {dish} in the world!\" said {elder}. {e.He} ate three pieces.",
            "{elder} took a bite and laughed. \"You are a great cook, {hero},\" {e.he} said.",
        ]),
        Maybe(&[
            "They took one piece to {worker} and said thank you.",
            "Then {hero} and {elder} ate the rest together.",
        ]),
    ],
};

pub(super) const QUARREL: Plot = Plot {
    name: "quarrel",
    beats: &[
        Say(&[
            "{Time}, {hero} and {friend} found a {toy} {at}.",
            "{Time}, [{he}|{hero}] was playing {at} with a {toy}. Then {friend} came along.",
        ]),
        SKY,
        Say(&[
            "\"I want the {thing}!\" said {friend}. \"No, it is mine!\" said {hero}.",
            "\"Give me the {thing}!\" cried {friend}. \"No, I had it first!\" cried {hero}.",
        ]),
        Swap(&["{hero} was angry."], &["{friend} began to cry.", "{friend} pushed {hero}."]),
        Say(&[
            "{worker} heard the noise and came to them. \"What is wrong?\" {w.he} asked.",
            "Then {worker} walked by. {w.He} looked at the children and the {thing}.",
        ]),
        Say(&[
            "\"You can share the {thing},\" {w.he} said.",
            "\"A {thing} is no fun if you play alone,\" {w.he} said.",
        ]),
        Maybe(&[
            "{hero} thought about it. \"I am sorry, {friend},\" {he} said. \"You can go first.\"",
            "{friend} looked at {hero}. \"I am sorry,\" {f.he} said. \"Let us play together.\"",
        ]),
        Say(&[
            "So they shared the {toy}, and it was much more fun.",
            "First {friend} played with the {thing}, and then it was {hero}'s turn.",
        ]),
        Maybe(&["{worker} smiled and gave them some {food}."]),
        FRIENDS_STAY,
    ],
};
