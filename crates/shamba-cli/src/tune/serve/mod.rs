//! `tune --serve`: a page to explore designs on, over HTTP on this machine only.
//!
//! [`run`] listens on 127.0.0.1 and blocks until it is stopped: by Ctrl-C, by the page, or after
//! some time without a request. [`guard`] lets through only what comes from this machine's own
//! page, [`page`] holds its files, [`api`] answers its questions with the same functions as the
//! rest of
//! `tune`: the page itself computes nothing. One thread serves, two more ask the model.

mod activity;
mod api;
mod balance;
mod guard;
mod page;
mod source;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::args::Global;
use crate::failure::Failure;
use crate::show;
use activity::Activity;
pub use source::Source;

/// How the page is served.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Serve a page on this machine on which to explore designs
    #[arg(
        long,
        conflicts_with_all = ["json", "what_if", "print_description"],
        help_heading = "Page"
    )]
    serve: bool,
    /// The port of the page; 0 for any that is free
    #[arg(
        long,
        value_name = "PORT",
        requires = "serve",
        default_value_t = 8417,
        help_heading = "Page"
    )]
    port: u16,
    /// Minutes without a request after which serving ends
    #[arg(
        long,
        value_name = "MINUTES",
        requires = "serve",
        default_value = "60",
        value_parser = minutes,
        help_heading = "Page"
    )]
    idle: Duration,
}

impl ServeArgs {
    /// Whether a page is wanted.
    pub fn asked(&self) -> bool {
        self.serve
    }
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match minutes > 0.0 && minutes <= 60.0 * 24.0 * 365.0 {
        true => Ok(Duration::from_secs_f64(minutes * 60.0)),
        false => Err("it must be above 0 and at most a year".to_owned()),
    }
}

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

/// Serves until it is stopped.
pub fn run(global: &Global, args: &ServeArgs, source: Source) -> Result<(), Failure> {
    let failed = |source| Failure::io("serve", "the page", source);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WORKERS)
        .build()
        .map_err(failed)?;
    let reason = runtime.block_on(serve(args, source))?;
    // A question that is still worked on is nobody's any more.
    runtime.shutdown_background();
    if !global.quiet {
        eprintln!("stopped: {reason}");
    }
    Ok(())
}

async fn serve(args: &ServeArgs, source: Source) -> Result<String, Failure> {
    let failed = |source| Failure::io("serve", "the page", source);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::usage(
            format!("cannot listen on {address}: {error}"),
            "choose another --port, or --port 0 for any that is free",
        )
    })?;
    let port = listener.local_addr().map_err(failed)?.port();
    let server = Arc::new(Server {
        source,
        port,
        workers: Semaphore::new(WORKERS),
        activity: Activity::new(),
        stop: Notify::new(),
    });
    show::print(format!("http://127.0.0.1:{port}/"))?;
    eprintln!("Ctrl-C stops it, as does its own button");
    let ending = Arc::new(Notify::new());
    let told = ending.clone();
    let serving = axum::serve(listener, routes(server.clone()))
        .with_graceful_shutdown(async move { told.notified().await });
    let mut serving = std::pin::pin!(serving.into_future());
    let reason = tokio::select! {
        ended = &mut serving => return ended.map(|()| String::new()).map_err(failed),
        reason = end(&server, args.idle) => reason,
    };
    ending.notify_one();
    // A client that keeps its connection open does not keep the server.
    match timeout(LAST_ANSWERS, serving).await {
        Ok(ended) => ended.map(|()| reason).map_err(failed),
        Err(_) => Ok(reason),
    }
}

/// Returns when serving is to end, saying why.
async fn end(server: &Server, idle: Duration) -> String {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without the signal there still are the other ways to end it.
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => "Ctrl-C".to_owned(),
        () = server.stop.notified() => "the page asked for it".to_owned(),
        () = server.activity.silence(idle) => {
            format!("no request for {} minutes", idle.as_secs_f64() / 60.0)
        }
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
