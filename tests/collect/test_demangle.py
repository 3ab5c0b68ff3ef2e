"""Names of C++ as people write them."""

import pytest

from pasta.collect.demangle import _library_function, demangled


def test_names_that_are_not_mangled_stay():
    assert demangled("add") == "add"
    assert demangled("_Z") == "_Z"
    assert demangled("_Zno such name") == "_Zno such name"


def test_mangled_names_get_their_arguments():
    if _library_function() is None:
        pytest.skip("no C++ library")
    assert demangled("_Z6vecaddPKfS0_Pf") == "vecadd(float const*, float const*, float*)"
    assert demangled("_Z5scaleIfLi3EEvPT_S0_") == "void scale<float, 3>(float*, float)"
