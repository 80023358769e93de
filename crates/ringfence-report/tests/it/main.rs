//! The tests of the pages, as one program. The tests in `browser` open pages in Chromium.

mod browser;
mod corrupt;
mod import;
mod made_up;
mod palette;
mod peaks;
mod traced;
