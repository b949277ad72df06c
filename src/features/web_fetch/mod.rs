//! The tool `web_fetch`: one page of the web, as text.

mod fetches;
mod html;
mod proxy;
mod redirect;
mod tool;

use super::{Feature, Helper};

pub const FEATURE: Feature = Feature {
    tools: &[&tool::SPEC],
    component: Some(|| Box::<fetches::WebFetches>::default()),
    helper: Some(Helper { flag: html::FLAG, main: html::main }),
    ..Feature::new("web-fetch")
};
