//! Every driver call that the placement policy and the uploads make fails, one after the other: a typed error or none at
//! all, everything sound, the same call again succeeds, the bytes are right, and nothing is left.

mod placement;
mod upload;
mod walk;
