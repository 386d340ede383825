"""Reads the JUnit and TAP reports of a run with libraries that others wrote, and compares what they understand with the JSON report.

    check.py REPORT.json REPORT.xml REPORT.tap JUNIT.xsd
"""

import json
import sys
from collections import Counter

import xmlschema
from junitparser import Error, Failure, JUnitXml, Skipped
from tap.parser import Parser

FAILURES = {"fail", "flaky"}
SKIPS_JUNIT = {"expected_failure", "warning", "unobservable", "not_claimed", "not_run"}
SKIPS_TAP = {"unobservable", "not_claimed", "not_run", "self_check"}
TODOS_TAP = {"expected_failure", "warning"}


def junit(path):
    """Verdicts by kind, and every name with its class, as junitparser sees them."""
    seen, names = Counter(), Counter()
    for suite in JUnitXml.fromfile(path):
        of_suite = Counter()
        for case in suite:
            names[case.classname, case.name] += 1
            kinds = {type(result) for result in case.result}
            kind = "failed" if kinds & {Failure, Error} else "skipped" if Skipped in kinds else "passed"
            of_suite[kind] += 1
            if kind == "failed":
                assert case.result[0].message and case.result[0].text, f"{case.name}: nothing says why"
        assert suite.tests == sum(of_suite.values()), f"{suite.name} counts {suite.tests} tests"
        assert suite.failures == of_suite["failed"], f"{suite.name} counts {suite.failures} failures"
        assert (suite.skipped or 0) == of_suite["skipped"], f"{suite.name} counts {suite.skipped} skipped"
        seen += of_suite
    twice = [name for name, count in names.items() if count > 1]
    assert not twice, f"a consumer cannot tell these apart: {twice[:5]}"
    return seen


def valid(path, schema):
    """Whether the document is what the schema asks for; and one that is not, for a checker must be seen to fail."""
    schema = xmlschema.XMLSchema(schema)
    schema.validate(path)
    with open(path, encoding="utf-8") as file:
        spoilt = file.read().replace("<testcase ", "<testcase verdict='good' ", 1)
    assert not schema.is_valid(spoilt), "the schema takes anything"


def tap(path):
    """Verdicts by kind as tap.py sees them."""
    seen, plan = Counter(), None
    for line in Parser().parse_file(path):
        if line.category == "plan":
            plan = line.expected_tests
        if line.category != "test":
            assert line.category != "unknown" or not str(line).strip(), f"not understood: {line}"
            continue
        kind = "skipped" if line.skip else "todo" if line.todo else "passed" if line.ok else "failed"
        seen[kind] += 1
    assert plan == sum(seen.values()), f"{plan} planned, {sum(seen.values())} seen"
    return seen


def expected(run, skipped, todo):
    kinds = Counter()
    for case in run["cases"]:
        status = case["status"]
        kind = "failed" if status in FAILURES else "skipped" if status in skipped else "todo" if status in todo else "passed"
        kinds[kind] += 1
    kinds["failed"] += len(run["complaints"])
    return +kinds


def main():
    report, xml, text, schema = sys.argv[1:]
    valid(xml, schema)
    print("xmlschema: a JUnit report by the schema of Jenkins")
    with open(report, encoding="utf-8") as file:
        run = json.load(file)
    for name, seen, wanted in [
        ("junitparser", junit(xml), expected(run, SKIPS_JUNIT, set())),
        ("tap.py", tap(text), expected(run, SKIPS_TAP, TODOS_TAP)),
    ]:
        assert +seen == wanted, f"{name} sees {dict(seen)}, the run has {dict(wanted)}"
        print(f"{name}: {dict(sorted(seen.items()))}, as the run has them")


if __name__ == "__main__":
    main()
