//! What only Linux has, one module for each concern. A port to another system replaces this folder.

pub mod child_exit;
pub mod descriptors;
pub mod memory_file;
pub mod orphans;
pub mod process_tree;
