//! A page to explore designs on, over HTTP on this machine only.
//!
//! [`PageServer::bind`] listens on 127.0.0.1, [`PageServer::run`] answers and blocks until it is
//! stopped: by Ctrl-C, by the page, or after some time without a request. `guard` lets through only
//! what comes from this machine's own page, `page` holds its files, `api` answers its questions
//! with the same functions as the rest of this crate: the page itself computes nothing. One thread
//! serves, two more ask the model.

mod activity;
mod api;
mod balance;
mod guard;
mod page;
mod source;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::error::{Error, Result};
use activity::Activity;
pub use source::{Ask, Database, Source};

/// Questions to the model and to the database that are worked on at once.
const WORKERS: usize = 2;

/// How long open connections may take to end once serving has.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What all requests share.
struct Server {
    source: Source,
    port: u16,
    workers: Semaphore,
    activity: Activity,
    /// Told when the page wants the end.
    stop: Notify,
}

/// A page that can be asked for, and is answered once it runs.
#[derive(Debug)]
pub struct PageServer {
    listener: TcpListener,
    port: u16,
    source: Source,
}

impl PageServer {
    /// Listens on 127.0.0.1, on any port that is free if `port` is 0.
    ///
    /// # Errors
    /// [`Error::Refused`] for a port that cannot be had, [`Error::Serve`] for all else.
    pub fn bind(port: u16, source: Source) -> Result<PageServer> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).map_err(|error| {
            Error::refused(
                format!("cannot listen on {address}: {error}"),
                "choose another --port, or --port 0 for any that is free",
            )
        })?;
        listener.set_nonblocking(true).map_err(Error::Serve)?;
        let port = listener.local_addr().map_err(Error::Serve)?.port();
        Ok(PageServer {
            listener,
            port,
            source,
        })
    }

    /// Where the page is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Serves until it is stopped, or nothing was asked for `idle`.
    ///
    /// # Errors
    /// [`Error::Serve`], where the system fails it.
    pub fn run(self, idle: Duration) -> Result<Ended> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS)
            .build()
            .map_err(Error::Serve)?;
        let ended = runtime.block_on(self.serve(idle))?;
        // A question that is still worked on is nobody's any more.
        runtime.shutdown_background();
        Ok(ended)
    }

    async fn serve(self, idle: Duration) -> Result<Ended> {
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(Error::Serve)?;
        let server = Arc::new(Server {
            source: self.source,
            port: self.port,
            workers: Semaphore::new(WORKERS),
            activity: Activity::new(),
            stop: Notify::new(),
        });
        let ending = Arc::new(Notify::new());
        let told = ending.clone();
        let serving = axum::serve(listener, routes(server.clone()))
            .with_graceful_shutdown(async move { told.notified().await });
        let mut serving = std::pin::pin!(serving.into_future());
        let ended = tokio::select! {
            // It ends by itself only where it fails.
            failed = &mut serving => return failed.map(|()| Ended::Asked).map_err(Error::Serve),
            ended = end(&server, idle) => ended,
        };
        ending.notify_one();
        // A client that keeps its connection open does not keep the server.
        match timeout(LAST_ANSWERS, serving).await {
            Ok(last) => last.map(|()| ended).map_err(Error::Serve),
            Err(_) => Ok(ended),
        }
    }
}

/// Why serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By Ctrl-C.
    Interrupted,
    /// By the page.
    Asked,
    /// Nothing was asked for so long.
    Idle(Duration),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Interrupted => f.write_str("Ctrl-C"),
            Ended::Asked => f.write_str("the page asked for it"),
            Ended::Idle(idle) => {
                write!(f, "no request for {} minutes", idle.as_secs_f64() / 60.0)
            }
        }
    }
}

/// Returns when serving is to end, saying why.
async fn end(server: &Server, idle: Duration) -> Ended {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without the signal there still are the other ways to end it.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => Ended::Interrupted,
        () = server.stop.notified() => Ended::Asked,
        () = server.activity.silence(idle) => Ended::Idle(idle),
    }
}

fn routes(server: Arc<Server>) -> Router {
    let mut router: Router<Arc<Server>> = Router::new();
    for file in page::FILES {
        let route: MethodRouter<Arc<Server>> = get(move || async { file.response() });
        router = router.route(file.path, route);
    }
    router
        .route("/api/start", get(api::start))
        .route("/api/design", post(api::design))
        .route("/api/balance", post(api::balanced))
        .route("/api/measure", post(api::measure))
        .route("/api/stop", post(api::stop))
        .fallback(api::nothing)
        .method_not_allowed_fallback(api::no_method)
        .layer(axum::extract::DefaultBodyLimit::max(guard::MOST_BODY))
        .layer(middleware::from_fn_with_state(server.clone(), guard::check))
        .with_state(server)
}
