//! Plots about giving and sharing.

use super::Beat::{Maybe, Say, Swap};
use super::{FRIENDS_STAY, GOOD_NIGHT, HOME_AGAIN, Plot, SKY};

pub(super) const BAKE: Plot = Plot {
    name: "bake",
    beats: &[
        Say(&[
            "{Time}, {he} wanted to make a {dish} for {elder}.",
            "It was the birthday of {elder}, and {hero} wanted to bake a {dish}.",
            "{Time}, {elder} was ill, so {hero} decided to bake a {dish} for {e.him}.",
        ]),
        Swap(
            &["{He} washed {his} hands.", "{He} put on {his} {colour} apron."],
            &["{He} took out a big bowl.", "{He} opened the old cookbook."],
        ),
        Say(&[
            "But there {was} no {ingredient} in the kitchen.",
            "\"Oh no,\" said {hero}. \"We have no {ingredient}!\"",
        ]),
        Say(&[
            "So {he} went to {worker} and asked, \"May I have some {ingredient}, please?\"",
            "{He} ran to {worker}. \"I need some {ingredient} for a {dish},\" {he} said.",
        ]),
        Say(&[
            "\"Of course,\" said {worker}, and {w.he} gave {him} some {ingredient}.",
            "{worker} smiled. \"Take what you need,\" {w.he} said.",
            "\"First help me carry this basket,\" said {worker}. {hero} helped {w.him} and got the {ingredient}.",
        ]),
        Say(&[
            "{hero} thanked {w.him} and ran back to the kitchen.",
            "Back at home, {hero} mixed everything in the bowl.",
        ]),
        Maybe(&["Soon the house smelled [sweet|wonderful].", "{He} waited in front of the hot oven."]),
        Say(&[
            "When the {dish} was ready, {he} gave it to {elder}.",
            "At last the {dish} was done. {He} put it on the table in front of {elder}.",
        ]),
        Say(&[
            "\"This is the best {dish} in the world!\" said {elder}. {e.He} ate three pieces.",
            "{elder} was so happy that {e.he} danced around the table.",
            "{elder} took a bite and laughed. \"You are a great cook, {hero},\" {e.he} said.",
        ]),
        Say(&[
            "{hero} took one piece to {worker} and said thank you.",
            "They kept a piece of the {dish} for {worker}.",
            "Then {hero} and {elder} ate the rest together.",
        ]),
    ],
};

pub(super) const QUARREL: Plot = Plot {
    name: "quarrel",
    beats: &[
        Say(&[
            "{Time}, {hero} and {friend} found a {toy} {at}.",
            "{Time}, {he} was playing {at} with a {toy}. Then {friend} came along.",
        ]),
        SKY,
        Say(&[
            "\"I want the {thing}!\" said {friend}. \"No, it is mine!\" said {hero}.",
            "\"Give me the {thing}!\" cried {friend}. \"No, I had it first!\" cried {hero}.",
        ]),
        Say(&[
            "They both pulled at it, and the {toy} fell into the mud.",
            "{friend} pushed {hero}, and {hero} pushed {friend}.",
        ]),
        Swap(
            &["{hero} was angry.", "{hero} turned {his} back."],
            &["{friend} began to cry.", "{friend} sat down and said nothing."],
        ),
        Say(&[
            "{worker} heard the noise and came to them. \"What is wrong?\" {w.he} asked.",
            "Then {worker} walked by. {w.He} looked at the children and the {thing}.",
        ]),
        Say(&[
            "\"A {thing} is no fun if you play alone,\" {w.he} said. \"Why do you not share it?\"",
            "\"There is only one {thing},\" {w.he} said, \"but there are many ways to share it.\"",
        ]),
        Say(&[
            "{hero} thought about it. \"I am sorry, {friend},\" {he} said. \"You can go first.\"",
            "{friend} looked at {hero}. \"I am sorry,\" {f.he} said. \"Let us play together.\"",
        ]),
        Say(&[
            "So they shared the {toy}, and it was much more fun.",
            "First {friend} played with the {thing}, and then it was {hero}'s turn.",
        ]),
        Maybe(&["{worker} smiled and gave them some {food}."]),
        FRIENDS_STAY,
        HOME_AGAIN,
    ],
};

pub(super) const MARKET: Plot = Plot {
    name: "market",
    beats: &[
        Say(&[
            "{Time}, {he} went to the market with [three|five|ten] coins in {his} hand.",
            "{Time}, {elder} gave {him} [three|five|ten] coins for the market.",
        ]),
        Say(&["{hero} wanted to buy a {toy} for {elder}.", "{He} wanted to buy some {food} and a {toy}."]),
        SKY,
        Swap(
            &["The market was full of people.", "Somebody played music."],
            &["There were baskets of {food2} everywhere.", "{hero} saw cups, hats and shoes."],
        ),
        Say(&[
            "Near the gate sat {friend}. {f.He} was crying.",
            "There {he} met {friend}. {f.He} looked very sad.",
        ]),
        Say(&[
            "\"I lost my money,\" said {friend}. \"Now I cannot buy {food2} for my family.\"",
            "\"My mother is ill, and we have nothing to eat,\" said {friend}.",
        ]),
        Say(&[
            "{hero} looked at {his} coins. Then {he} gave them to {friend}.",
            "\"Take my coins,\" said {hero}. \"You need them more than I do.\"",
        ]),
        Say(&[
            "\"Thank you!\" said {friend}, and {f.he} ran off to buy some {food2}.",
            "{friend} smiled again. \"I will never forget this,\" {f.he} said.",
        ]),
        Say(&[
            "{worker} had seen it all. \"You have a kind heart,\" {w.he} said, and {w.he} gave {hero} a {toy}.",
            "{hero} went home without the {thing}. But {elder} was proud of {him}.",
            "The next day, {friend} came to {hero}'s house with a {toy}. {f.He} had made it for {him}.",
        ]),
        GOOD_NIGHT,
    ],
};

pub(super) const NEWCOMER: Plot = Plot {
    name: "newcomer",
    beats: &[
        Say(&[
            "{Time}, a new {f.girl} came to school. {f.His} name was {friend}.",
            "{Time}, {he} saw a new {f.girl} at school. The {f.girl} was called {friend}.",
        ]),
        Say(&[
            "{friend} was shy and did not speak to anyone.",
            "{friend} sat alone under a tree and looked at {f.his} shoes.",
        ]),
        Say(&[
            "\"Nobody plays with {f.him},\" thought {hero}. \"I will ask {f.him}.\"",
            "{hero} remembered how {he} had once been alone, too.",
        ]),
        Say(&[
            "{He} took {his} {toy} and sat down next to {friend}.",
            "{He} went to {friend} and showed {f.him} a {toy}.",
        ]),
        Say(&[
            "\"Would you like to play with my {thing}?\" {hero} asked.",
            "\"My name is {hero}. This is my {thing}. Do you like it?\" {he} said.",
        ]),
        Maybe(&["{friend} looked up and smiled a little.", "At first {friend} said nothing."]),
        Say(&[
            "\"I had a {thing} at home, too,\" said {friend}. \"But now my home is far away.\"",
            "\"It is beautiful,\" said {friend}. \"I have never seen such a {toy}.\"",
        ]),
        Swap(
            &["They played with the {thing} {at}.", "They took turns with the {thing}."],
            &["{hero} gave {friend} some {food}.", "{friend} told {hero} about {f.his} {animal} at home."],
        ),
        Say(&[
            "{worker} saw the two children and was glad.",
            "Soon the other children came and played with them, too.",
        ]),
        FRIENDS_STAY,
        HOME_AGAIN,
    ],
};
