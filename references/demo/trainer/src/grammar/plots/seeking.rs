//! Plots in which the hero looks for something.

use super::Beat::{Maybe, Say, Swap};
use super::{ANIMAL_STAYS, FRIENDS_STAY, Plot, SKY};

pub(super) const LOST: Plot = Plot {
    name: "lost",
    beats: &[
        Say(&[
            "{elder} gave {him} a {toy}, and {he} loved it very much.",
            "[{He}|{hero}] had a {toy} that {elder} had made for {him}.",
            "{His} best [gift|present] was a {toy} from {elder}.",
        ]),
        Say(&[
            "{Time}, [{he}|{hero}] took the {toy} to the {place}.",
            "{Time}, {hero} went to the {place} to play with the {toy}.",
        ]),
        SKY,
        Say(&[
            "[{He}|{hero}] ran and jumped, and soon the {thing} was gone.",
            "[{He}|{hero}] put the {thing} down to tie {his} shoes. When {he} looked up, it was gone.",
            "On the way home, {he} saw that the {thing} was not in {his} bag.",
        ]),
        Maybe(&["{hero} looked everywhere, but {he} could not find it.", "\"Where is my {thing}?\" {he} cried."]),
        Say(&["A {beast} came [up to {him}|out of the grass|down the road].", "Just then, {he} met a {beast}."]),
        Say(&[
            "\"Why are you so sad?\" asked the {animal}. \"I lost my {toy},\" said {hero}.",
            "\"Please help me,\" said {hero}. \"I lost my {toy}.\" The {animal} wanted to help.",
            "The {animal} saw that {hero} was crying. \"What is wrong?\" it asked. \"I lost my {thing},\" {he} said.",
        ]),
        Maybe(&["\"We will look for it together,\" said the {animal}.", "They looked for a long time."]),
        Say(&[
            "At last, the {animal} [saw|found] the {toy} {hide}.",
            "Then the {animal} called, \"Here it is!\" The {toy} was {hide}.",
        ]),
        Say(&["\"Thank you, my friend!\" said {hero}.", "{hero} thanked the {animal} and gave it some {food}."]),
        ANIMAL_STAYS,
    ],
};

pub(super) const MAP: Plot = Plot {
    name: "map",
    beats: &[
        Say(&[
            "{Time}, [{he}|{hero}] found an old map {hide}.",
            "{Time}, {elder} gave {him} an old map.",
            "{Time}, an old map fell out of a book.",
        ]),
        Say(&[
            "{hero} showed the map to {his} friend {friend}.",
            "[{He}|{hero}] ran to {his} friend {friend} with the map in {his} hand.",
        ]),
        Say(&[
            "\"Look!\" said {friend}. \"The map shows the {place}!\"",
            "\"There is a cross {at},\" said {friend}. \"Let us go!\"",
        ]),
        Maybe(&["They took [a rope|a lamp|some {food}] and walked to the {place}."]),
        Say(&[
            "On the way, they met a {beast}. \"May I come too?\" it asked. \"Yes, come with us,\" said {hero}.",
            "At the {place}, a {beast} was waiting. \"I know the way,\" it said.",
        ]),
        Swap(&["{hero} read the map again."], &["The {animal} ran ahead.", "{friend} looked behind every tree."]),
        Say(&[
            "Then {friend} began to dig. Soon {f.he} hit something hard.",
            "They began to dig. Soon the {animal} hit something hard.",
        ]),
        Say(&[
            "It was a box, and inside the box lay a {toy}.",
            "They pulled out a heavy box. In it they found a {toy}.",
        ]),
        Maybe(&[
            "\"We found it together, so the {thing} is for all of us,\" said {hero}.",
            "{hero} gave the {thing} to {friend}. \"You dig very well,\" {he} said.",
            "\"This {thing} is better than gold!\" said {friend}.",
        ]),
        FRIENDS_STAY,
    ],
};

pub(super) const WISH: Plot = Plot {
    name: "wish",
    beats: &[
        Say(&[
            "More than anything, {he} wanted a {toy}.",
            "Every night {he} looked at the stars and wished for a {toy}.",
            "[{He}|{hero}] had no toys, and {he} dreamed of a {toy}.",
        ]),
        Say(&[
            "{Time}, [{he}|{hero}] found a [magic|golden|shining] [shell|coin|key] {at}.",
            "{Time}, [{he}|{hero}] walked to the {place} and saw something bright {hide}. It was a magic [shell|coin|key].",
        ]),
        Say(&[
            "A {beast} sat next to it. \"You may make one wish,\" said the {animal}.",
            "\"That is mine,\" said a {beast}. \"But I will give you one wish.\"",
        ]),
        Say(&[
            "{hero} thought about the {thing}. But then {he} saw that the {animal} was [hungry|cold|thin and weak].",
            "{hero} wanted to say, \"A {toy}!\" But the {animal} looked so [sad|hungry|tired].",
        ]),
        Say(&[
            "\"I wish for some {food} for you,\" {he} said.",
            "\"I wish that you may be well and warm,\" {he} said to the {animal}.",
        ]),
        Say(&[
            "\"You have a good heart,\" said the {animal}. The next day, a {toy} lay at {his} door.",
            "When {hero} came home, there was a {toy} on {his} bed.",
        ]),
        Say(&[
            "[{He}|{hero}] knew who had sent it.",
            "\"Thank you, little {animal}!\" {he} called out of the window.",
            "{hero} took the {thing} in {his} arms and laughed.",
        ]),
    ],
};

pub(super) const NIGHT: Plot = Plot {
    name: "night",
    beats: &[
        Say(&[
            "{hero} was afraid of the dark.",
            "[{He}|{hero}] did not like the night.",
            "Every night {he} asked {elder} to leave the light on.",
        ]),
        Say(&[
            "One night, {he} heard a [strange|soft|loud] noise {room}.",
            "One night, there was a [strange|soft|loud] noise {room}.",
            "One night, something [knocked|scratched] {room}.",
        ]),
        Swap(
            &["{hero} hid under {his} blanket.", "{His} heart beat fast."],
            &["\"Who is there?\" {he} asked.", "\"Is that you, {elder}?\" {he} called."],
        ),
        Maybe(&["Nobody answered, but the noise came again.", "It was quiet for a while. Then the noise came back."]),
        Say(&[
            "[{He}|{hero}] took a deep breath, picked up {his} {toy} and got out of bed.",
            "{hero} held {his} {toy} and walked slowly through the dark house.",
        ]),
        Maybe(&["The moon shone through the window."]),
        Say(&[
            "There sat a {beast}. It was [cold and wet|hungry|lost].",
            "[{He}|{hero}] opened the door and saw a {beast}. It was [shaking with cold|very hungry|all alone].",
        ]),
        Say(&[
            "\"You are only a {animal}!\" said {hero}. \"I am not afraid of you.\"",
            "{hero} laughed. \"It was only you, little {animal}!\" {he} said.",
        ]),
        Say(&[
            "[{He}|{hero}] gave the {animal} some {food} and a warm place to sleep.",
            "[{He}|{hero}] let the {animal} sleep on {his} bed.",
        ]),
        Say(&[
            "In the morning, {elder} found the {animal} and {hero} asleep with the {thing} between them.",
            "\"You were very brave,\" said {elder} in the morning.",
            "After that night, {hero} was not afraid of the dark any more.",
        ]),
    ],
};
