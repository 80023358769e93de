//! The tests of the pages, in one program. Those of `browser` open a page in Chromium.

mod browser;
mod corrupt;
mod import;
mod made_up;
mod palette;
mod peaks;
mod traced;
