//! One command a file.

pub(crate) mod advise;
pub(crate) mod audit;
pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod diagnose;
pub(crate) mod doctor;
pub(crate) mod faults;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod profile;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod selftest;
