#!/usr/bin/env python3
"""A whole adapter of the testee protocol (spec/protocol/testee.md), in front of a toy library.

The toy knows integers, `+`, `-`, `*` and `println`, nested as one likes. It is wrong in one place on purpose: it takes `-`
of one argument for the argument itself. So a run shows cases that pass, cases that fail and cases that are not claimed.
"""

import json
import sys


class Refusal(Exception):
    """A program that fails, with the protocol's reason."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


def read(tokens):
    """One form from the front of `tokens`."""
    if not tokens:
        raise Refusal("parse_error", "the program ends inside a form")
    token = tokens.pop(0)
    if token == "(":
        form = []
        while tokens and tokens[0] != ")":
            form.append(read(tokens))
        if not tokens:
            raise Refusal("parse_error", "unbalanced parentheses: 1 unclosed '('")
        tokens.pop(0)
        return form
    if token == ")":
        raise Refusal("parse_error", "a stray ')'")
    return token


def evaluate(form, prints):
    """The value of a form: an integer, or None for nil."""
    if isinstance(form, str):
        if form == "nil":
            return None
        try:
            return int(form)
        except ValueError:
            raise Refusal("runtime_error", f"Undefined variable: {form}") from None
    if not form or not isinstance(form[0], str):
        raise Refusal("runtime_error", "not callable")
    arguments = [evaluate(argument, prints) for argument in form[1:]]
    if form[0] == "println":
        prints.append(" ".join("nil" if value is None else str(value) for value in arguments))
        return None
    if any(value is None for value in arguments):
        raise Refusal("runtime_error", f"type_error: {form[0]} expects numbers")
    if form[0] == "+":
        return sum(arguments)
    if form[0] == "*":
        product = 1
        for value in arguments:
            product *= value
        return product
    if form[0] == "-":
        if not arguments:
            raise Refusal("runtime_error", "arity_error: - expects an argument")
        first, *rest = arguments
        return first - sum(rest)
    raise Refusal("runtime_error", f"Undefined variable: {form[0]}")


def lisp_run(request):
    """The operation that the cases of the language need."""
    program = "\n".join(line.split(";")[0] for line in request["program"].split("\n"))
    tokens = program.replace(",", " ").replace("(", " ( ").replace(")", " ) ").split()
    forms = []
    while tokens:
        forms.append(read(tokens))
    prints = []
    value = None
    for form in forms:
        value = evaluate(form, prints)
    shown = None if value is None else f"user=> {value}"
    return {"result": shown, "value": value, "prints": prints, "truncated": False}


OPERATIONS = {
    "capabilities": lambda _: {"ops": sorted(OPERATIONS), "name": "toy", "version": "1"},
    "lisp_run": lisp_run,
}


def answer(request):
    """The reply to one request."""
    operation = OPERATIONS.get(request.get("op"))
    if operation is None:
        return {"error": {"reason": "unknown_op", "message": f"unknown operation {request.get('op')}"}}
    try:
        return {"ok": operation(request["input"])}
    except Refusal as refusal:
        return {"error": {"reason": refusal.reason, "message": str(refusal)}}
    except RecursionError:
        return {"error": {"reason": "memory_limit", "message": "nested too deep"}}


def main():
    """Requests in, replies out, until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        reply = {"id": request["id"], **answer(request)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
