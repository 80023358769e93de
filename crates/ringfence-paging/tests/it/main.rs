mod program;
mod rules;
mod scene;
