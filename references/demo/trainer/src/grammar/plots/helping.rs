//! Plots in which somebody is in trouble and somebody helps.

use super::Beat::{Maybe, Say, Swap};
use super::{ANIMAL_STAYS, HOME_AGAIN, Plot, SKY};

pub(super) const HUNGRY: Plot = Plot {
    name: "hungry",
    beats: &[
        Say(&[
            "{Time}, [{he}|{hero}] walked to the {place} with some {food} in {his} bag.",
            "{Time}, {elder} gave {hero} some {food} and sent {him} to the {place}.",
        ]),
        SKY,
        Say(&[
            "There {he} saw a {beast} {hide}.",
            "Near the {place}, {he} met a {beast}.",
            "[{He}|{hero}] heard a small voice. It was a {beast}.",
        ]),
        Say(&[
            "\"I am so hungry,\" said the {animal}. \"I have not eaten for two days.\"",
            "The {animal} was thin and weak. \"Do you have something to eat?\" it asked.",
        ]),
        Say(&[
            "{hero} looked into {his} bag. {He} was hungry too, but {he} gave the {food} to the {animal}.",
            "\"You can have my {food},\" said {hero}.",
            "{hero} sat down and shared the {food} with the {animal}.",
        ]),
        Maybe(&["The {animal} ate everything and felt strong again."]),
        Say(&[
            "On the way home, {hero} lost {his} way.",
            "When {he} wanted to go home, {he} did not know the way any more.",
            "Then {he} slipped and hurt {his} foot.",
        ]),
        Maybe(&["\"Help!\" {he} called.", "[{He}|{hero}] sat down on a stone and cried."]),
        Say(&[
            "The {animal} heard {him} and came at once. \"You helped me, and now I will help you,\" it said.",
            "Who came down the path? It was the {animal}! \"Follow me,\" it said.",
        ]),
        Say(&["Soon {hero} was safe at home.", "The {animal} brought {him} back to {elder}."]),
        ANIMAL_STAYS,
    ],
};

pub(super) const STUCK: Plot = Plot {
    name: "stuck",
    beats: &[
        Say(&[
            "{Time}, {hero} and {his} friend {friend} were playing {at}.",
            "{Time}, [{he}|{hero}] went to the {place} with {his} friend {friend}.",
        ]),
        SKY,
        Say(&[
            "Suddenly they heard a cry. A {beast} had fallen into a deep hole.",
            "\"Listen!\" said {friend}. A {beast} was stuck in the mud.",
            "Then {friend} saw a {beast}. Its foot was caught under a log.",
        ]),
        Maybe(&[
            "\"Help me, please!\" cried the {animal}.",
            "The {animal} was very [afraid|tired|cold].",
            "\"I have been here all night,\" said the {animal}.",
        ]),
        Swap(
            &["{hero} tried to help, but {he} was too small.", "{hero} pulled as hard as {he} could."],
            &["{friend} spoke softly to the {animal}.", "{friend} gave the {animal} some {food}."],
        ),
        Say(&[
            "\"I will run and get {worker},\" said {friend}.",
            "\"We need {worker},\" said {hero}. \"Run, {friend}!\"",
        ]),
        Say(&[
            "Soon {friend} came back with {worker}. {w.He} had a long [rope|ladder].",
            "{worker} came at once and brought a strong [rope|ladder].",
        ]),
        Say(&[
            "{worker}, {hero} and {friend} worked together, and at last the {animal} was free.",
            "{w.He} used it to [save|free] the {animal}, and the children helped {w.him}.",
        ]),
        Maybe(&[
            "\"Thank you all!\" said the {animal}.",
            "The {animal} jumped around them with joy.",
            "\"You are good children,\" said {worker}.",
        ]),
        Maybe(&["They named the {animal} {petname}.", "The {animal} followed {hero} home."]),
        HOME_AGAIN,
    ],
};

pub(super) const STORM: Plot = Plot {
    name: "storm",
    beats: &[
        Say(&[
            "One [morning|day|afternoon], {hero} and {friend} took a {toy} and went to the {place}.",
            "One [morning|day|afternoon], {he} was {at} with {his} friend {friend}. They had a {toy} with them.",
        ]),
        Maybe(&["They sang songs and played with the {thing}.", "They ate some {food} and laughed a lot."]),
        Say(&[
            "Suddenly the sky turned black. Rain began to fall.",
            "Then dark clouds came, and the wind began to blow.",
            "All at once there was thunder, and a big storm came.",
        ]),
        Swap(&["\"I want to go home!\" cried {friend}.", "{friend} was afraid."], &["The {thing} was wet."]),
        Maybe(&[
            "{hero} took {friend} by the hand. \"We must find a dry place,\" {he} said.",
            "\"Do not be afraid,\" said {hero}. \"I will stay with you.\"",
        ]),
        Say(&[
            "They ran until they saw a light. It was the house of {worker}.",
            "A {beast} showed them the way to the house of {worker}.",
        ]),
        Say(&[
            "{worker} opened the door and gave them some {food2}. {w.He} was very kind.",
            "\"Come in, come in!\" said {worker}. {w.He} put {w.his} coat around {friend}.",
        ]),
        Maybe(&["They sat by the fire and told stories.", "{hero} dried the {thing} by the fire."]),
        Say(&[
            "When the storm was over, there was a rainbow over the {place}.",
            "At last the rain stopped, and the sun came out again.",
        ]),
        Say(&[
            "{friend} picked up the {toy}, and the children thanked {worker} and went home.",
            "\"Look!\" said {friend}. {f.He} was not afraid any more.",
        ]),
    ],
};
