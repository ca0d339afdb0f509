//! One command a file.

pub(crate) mod advise;
pub(crate) mod attribute;
pub(crate) mod audit;
pub(crate) mod bisect;
pub(crate) mod bless;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod diagnose;
pub(crate) mod doctor;
pub(crate) mod faults;
pub(crate) mod forge;
pub(crate) mod gate;
pub(crate) mod gate_recipes;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod merge;
pub(crate) mod profile;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod selftest;
pub(crate) mod sweep;
