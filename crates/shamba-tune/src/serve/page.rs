//! The files of the page, part of the program: there is no path to escape from.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// A file of the page.
pub(super) struct File {
    pub(super) path: &'static str,
    kind: &'static str,
    content: &'static str,
}

impl File {
    pub(super) fn response(&self) -> Response {
        ([(CONTENT_TYPE, self.kind)], self.content).into_response()
    }
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($path:literal $kind:ident $name:literal,)*) => {
        /// All of them.
        pub(super) const FILES: &[File] = &[$(File {
            path: $path,
            kind: $kind,
            content: include_str!(concat!("page/", $name)),
        },)*];
    };
}

files! {
    "/" HTML "index.html",
    "/style.css" CSS "style.css",
    "/icon.svg" SVG "icon.svg",
    "/main.js" SCRIPT "main.js",
    "/fields.js" SCRIPT "fields.js",
    "/form.js" SCRIPT "form.js",
    "/format.js" SCRIPT "format.js",
    "/link.js" SCRIPT "link.js",
    "/dom.js" SCRIPT "dom.js",
    "/tree.js" SCRIPT "tree.js",
    "/chart.js" SCRIPT "chart.js",
    "/results.js" SCRIPT "results.js",
    "/measured.js" SCRIPT "measured.js",
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page loads is here, and from nowhere else.
    #[test]
    fn everything_loaded_is_here() {
        let mut asked = 1;
        for file in FILES {
            for (at, _) in file.content.match_indices(['"', '\'']) {
                let Some(rest) = file.content.get(at + 1..) else {
                    continue;
                };
                let name = rest.split(['"', '\'']).next().unwrap_or_default();
                let loaded = name.strip_prefix("./").unwrap_or(name);
                let (stem, kind) = loaded.rsplit_once('.').unwrap_or_default();
                if ["js", "css", "svg"].contains(&kind) && !stem.contains(' ') {
                    let path = format!("/{}", loaded.trim_start_matches('/'));
                    assert!(FILES.iter().any(|file| file.path == path), "{path}");
                    asked += 1;
                }
            }
            let outside = file.content.replace("http://www.w3.org/", "");
            assert!(!outside.contains("http://") && !outside.contains("https://"));
        }
        assert!(asked >= FILES.len(), "{asked}");
    }
}
