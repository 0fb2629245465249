"""Says of each function in a stream of modules whether its text is the same in all of them."""

import re
import sys

modules = sys.stdin.read().split("builtin.module {\n")[1:]
function = re.compile(r"^  func\.func (?:private )?@(\w+)\(.*?(?=^  \S|^\})", re.M | re.S)
texts: dict[str, list[str]] = {}
for module in modules:
    for match in function.finditer(module):
        texts.setdefault(match[1], []).append(match[0])
for name, found in texts.items():
    different = len(set(found))
    verdict = "the same" if different == 1 else f"{different} texts"
    print(f"@{name}: {verdict} in {len(found)} of {len(modules)} modules")
