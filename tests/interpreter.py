"""Triton's interpreter, without work that it does again and again."""

import triton.language as tl
from triton.runtime import interpreter


def patch_once_per_launch() -> None:
    """A launch replaces the functions of triton.language, and each call of a device function looks through all of them
    again: nearly half of the interpreter's time. Where a module's functions are replaced, nothing is left to do."""
    if not hasattr(interpreter, "_LangPatchScope"):  # Triton 3.5 does not put them back after a launch
        return
    patch = interpreter._patch_lang

    def patch_if_needed(function):
        modules = [value for value in function.__globals__.values() if value is tl or value is tl.core]
        done = modules and not any(tl.core.is_builtin(module.load) for module in modules)
        return interpreter._LangPatchScope() if done else patch(function)

    interpreter._patch_lang = patch_if_needed
