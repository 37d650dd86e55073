//! A list in pages, so that a freeze copies one pointer a page.

use std::sync::Arc;

/// Entries of one page, at most.
const ENTRIES: usize = 256;

/// Entries in the order in which they were added. A clone shares every page until one of the two writes to it.
#[derive(Clone)]
pub(super) struct Pages<T> {
    pages: Vec<Arc<Vec<T>>>,
    length: usize,
}

impl<T: Clone> Pages<T> {
    pub(super) fn new() -> Self {
        Self { pages: Vec::new(), length: 0 }
    }

    pub(super) fn push(&mut self, value: T) {
        if self.length.is_multiple_of(ENTRIES) {
            self.pages.push(Arc::new(Vec::new()));
        }
        let last = self.pages.last_mut().expect("a page was pushed, or the last one has room");
        Arc::make_mut(last).push(value);
        self.length += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter())
    }
}

impl<T: Clone> FromIterator<T> for Pages<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut pages = Self::new();
        values.into_iter().for_each(|value| pages.push(value));
        pages
    }
}
