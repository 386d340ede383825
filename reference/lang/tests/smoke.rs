//! One program of each kind, through the public interface only. Behaviour belongs in the specification.

use ptc_lang::{Ended, Env, Host, Limits, Program, print, run};

ptc_lang::counting_allocator!();

struct NullHost;

impl Host for NullHost {
    fn now_micros(&self) -> i64 {
        0
    }
}

fn check(program: &str) -> String {
    let (outcome, _) = run(
        &Program::new(program),
        &Env::new(),
        &Limits::default(),
        &NullHost,
    );
    match outcome.ended {
        Ended::Value(value) | Ended::Return(value) => print::readable(&value),
        Ended::Fail(value) => format!("fail {}", print::readable(&value)),
        Ended::Error(error) => format!("{}: {}", error.reason().name(), error.message()),
    }
}

#[test]
fn typical_programs_run() {
    insta::assert_snapshot!(check("(let [[a {:keys [b]}] [1 {:b 2}]] [a b])"), @"[1 2]");
    insta::assert_snapshot!(check("(return {:a [1 2.0 \"x\"]})"), @r#"{:a [1 2.0 "x"]}"#);
    insta::assert_snapshot!(check("(-> 5 return)"), @"5");
    insta::assert_snapshot!(check("(defn f [x & r] [x r]) (f 1 2 3)"), @"[1 [2 3]]");
    insta::assert_snapshot!(check("(zork 1)"), @"runtime_error: Undefined variable: zork");
    insta::assert_snapshot!(check("(for [x [1 2] y [3 4] :when (case x 1 true false)] [x y])"), @"[[1 3] [1 4]]");
    insta::assert_snapshot!(check("((fn f [n] (if (case n 0 true false) :done (f 0))) 7)"), @":done");
    insta::assert_snapshot!(check("(defn forever [n] [(forever n)]) (forever 1)"), @"memory_limit: the program wanted more memory than its limit");
    insta::assert_snapshot!(check("(loop [i 0] (if (case i 5 true false) i (recur 5)))"), @"5");
}
