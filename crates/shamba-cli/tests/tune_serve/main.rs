//! `tune --serve`: what its server answers and refuses, and what its page does in a real browser.

#[path = "../common/mod.rs"]
mod common;

mod chromium;
mod http;
mod page;
mod served;
