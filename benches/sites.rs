//! What a log call costs besides its time: code in the program, and time to compile it.
//!
//! `cargo bench --bench sites [-- --sites 1000]` builds programs of so many functions with one call each, of five shapes: no
//! argument, a text, two numbers with a spec, two fields, three arguments. Against them stand the same functions with
//! `eprintln!` of the same, and with nothing. Columns: seconds to compile the program alone, unoptimised and optimised (its
//! dependencies are built before), and bytes of the optimised, stripped program for each call, over the one with nothing.

#[path = "support/support.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, ensure};
use support::args::Args;
use support::exit::exit_code;
use support::process;

/// What the functions do, by shape.
type Calls = [&'static str; 5];

const PROGRAMS: [(&str, Calls); 3] = [
    ("nothing", ["", "", "", "", ""]),
    (
        "eprintln!",
        [
            r#"eprintln!("started");"#,
            r#"eprintln!("listening on {addr}");"#,
            r#"eprintln!("request {id} took {ms:.3} ms");"#,
            r#"eprintln!("request done user={id} took={ms}");"#,
            r#"eprintln!("try {} of {}: {addr}", id, id + 1);"#,
        ],
    ),
    (
        "logtool",
        [
            r#"logtool::info!("started");"#,
            r#"logtool::info!("listening on {addr}");"#,
            r#"logtool::info!("request {id} took {ms:.3} ms");"#,
            r#"logtool::info!(user = id, took = ms; "request done");"#,
            r#"logtool::warn!("try {} of {}: {addr}", id, id + 1);"#,
        ],
    ),
];

/// What building one program came to.
struct Built {
    debug_seconds: f64,
    release_seconds: f64,
    bytes: u64,
}

fn main() -> ExitCode {
    exit_code(bench().map(|()| true))
}

fn bench() -> anyhow::Result<()> {
    let args = Args::parse(&["--sites"], &[])?;
    let sites: usize = args.value("--sites", 1000)?;
    let place = tempfile::Builder::new().prefix("sites-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    println!("{}; {sites} calls", process::about_machine());
    println!("\n{:<12} {:>10} {:>12} {:>14}", "", "compile s", "optimised s", "bytes a call");
    let mut bytes_of_nothing = 0;
    for (name, calls) in &PROGRAMS {
        write_program(place.path(), calls, sites)?;
        let built = build(place.path())?;
        if bytes_of_nothing == 0 {
            bytes_of_nothing = built.bytes;
        }
        let bytes = (built.bytes as f64 - bytes_of_nothing as f64) / sites as f64;
        println!("{name:<12} {:>10.2} {:>12.2} {bytes:>14.0}", built.debug_seconds, built.release_seconds);
    }
    Ok(())
}

fn write_program(dir: &Path, calls: &Calls, sites: usize) -> anyhow::Result<()> {
    let mut source = String::from("use std::hint::black_box;\n");
    for number in 0..sites {
        let call = calls[number % calls.len()];
        writeln!(
            source,
            "#[inline(never)]\nfn f{number}(id: u64, ms: f64, addr: &str) {{\n    black_box((id, ms, addr));\n    {call}\n}}"
        )?;
    }
    // Each program has all of the library in it, so that only the calls differ.
    source.push_str(
        "fn main() {\n    let log = logtool::Logger::builder(\"log\").open();\n    let addr = black_box(\"a\");\n",
    );
    source.push_str("    logtool::info!(\"{} {}\", log.is_ok(), addr);\n");
    (0..sites).try_for_each(|number| writeln!(source, "    f{number}({number}, {number}.5, addr);"))?;
    source.push_str("}\n");
    let manifest = format!(
        "[package]\nname = \"sites\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nlogtool = {{ path = {:?} }}\n\
         [profile.release]\nstrip = true\n",
        env!("CARGO_MANIFEST_DIR")
    );
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("src/main.rs"), source)?;
    Ok(fs::write(dir.join("Cargo.toml"), manifest)?)
}

fn build(dir: &Path) -> anyhow::Result<Built> {
    let main = dir.join("src/main.rs");
    let source = fs::read(&main)?;
    let mut seconds = Vec::new();
    for profile in ["dev", "release"] {
        // What it depends on is built first, by a program that does nothing.
        fs::write(&main, "fn main() {}\n")?;
        cargo(dir, profile)?;
        fs::write(&main, &source)?;
        let start = Instant::now();
        cargo(dir, profile)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    let bytes = fs::metadata(dir.join("target/release/sites"))?.len();
    Ok(Built { debug_seconds: seconds[0], release_seconds: seconds[1], bytes })
}

fn cargo(dir: &Path, profile: &str) -> anyhow::Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(["build", "--quiet", "--profile", profile])
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .env("CARGO_INCREMENTAL", "0")
        .output()
        .context("cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
