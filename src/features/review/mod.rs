//! What an agent has changed, to be read, commented and landed: `/diff`, `/review-changes`, Alt+R.

mod comments;
mod marks;
mod paint;
mod view;

use crate::domain::change::ViewName;
use crate::features::{Feature, ViewSpec};
use view::ReviewView;

pub const FEATURE: Feature = Feature {
    views: &[ViewSpec { name: ViewName::Review, open: |agent| Box::new(ReviewView::of(agent)) }],
    topic: Some(("review", "Reviewing and landing what agents changed", include_str!("topic.txt"))),
    ..Feature::new("review")
};
