"""Runs the steps of action.yml as GitHub runs those of a composite action: expressions filled in, each script in a fresh bash, a
summary file, a workspace that is not this repository. What it judges is the toy in Python behind its adapter, which needs nothing.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
ACTION = ROOT / "conformance"
TOY = f"python3 {ROOT}/conformance/foreign/python/testee.py"


def filled(text, inputs):
    """The text with `${{ … }}` replaced; an expression that is not known here is a mistake."""
    values = {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": str(ACTION)}
    return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", lambda found: values[found[1]], str(text))


def play(workspace, given):
    """Exit status of the first step that fails, or 0; and the text of the summary."""
    action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    assert set(given) <= set(action["inputs"]), "the action has these inputs"
    inputs = {name: given.get(name, str(told.get("default", ""))) for name, told in action["inputs"].items()}
    summary, failed = workspace / "summary.md", 0
    summary.touch()
    for step in action["runs"]["steps"]:
        if failed and step.get("if") != "always()":
            continue
        if "uses" in step:
            # What GitHub would keep.
            assert step["uses"].startswith("actions/upload-artifact@"), step["uses"]
            kept = {path.name for path in (workspace / step["with"]["path"]).iterdir()}
            assert kept == {"report.html", "report.json", "report.xml"}, kept
            continue
        env = {name: filled(value, inputs) for name, value in step.get("env", {}).items()}
        script = workspace / "step.sh"
        script.write_text(filled(step["run"], inputs), encoding="utf-8")
        assert step["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        env = os.environ | env | {"GITHUB_STEP_SUMMARY": str(summary)}
        done = subprocess.run(command, cwd=workspace, env=env, stdout=subprocess.DEVNULL, check=False)
        failed = failed or done.returncode
    return failed, summary.read_text(encoding="utf-8")


def main():
    # A harness that is given is used; without one the action builds it.
    there = {"harness": sys.argv[1]} if sys.argv[1:] else {}
    good = {"testee": TOY, "filter": "numbers/add/{many,negatives,nested}"}
    bad = {"testee": TOY, "filter": "numbers/subtract/neg*", "claims": "claims.toml"}
    for given, status, verdict in [(good, 0, "conforms"), (bad, 1, "does not conform")]:
        with tempfile.TemporaryDirectory() as directory:
            workspace = pathlib.Path(directory)
            (workspace / "claims.toml").write_text("cases = [\"numbers.-\"]\n", encoding="utf-8")
            seen, summary = play(workspace, given | there)
            assert seen == status, f"exit status {seen}, expected {status}"
            assert f"PTC-Lisp conformance: {verdict}" in summary, summary
            run = json.loads((workspace / "conformance-report/report.json").read_text(encoding="utf-8"))
            words = sorted({case["status"] for case in run["cases"]})
            print(f"action.yml: {len(run['cases'])} cases, {', '.join(words)}, exit status {seen}, as it must be")


if __name__ == "__main__":
    main()
