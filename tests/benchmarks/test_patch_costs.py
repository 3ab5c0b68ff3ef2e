"""The variants of the patches that are measured are edits of pasta's own: each still applies."""

from __future__ import annotations

import pytest

from benchmarks.patch_costs import BARE, EDITS, PREFER_L1, chosen, edited, fatbin


@pytest.mark.parametrize("variant", EDITS)
def test_an_edit_applies_to_the_sources_of_today(variant):
    assert len(edited(variant)) == len(EDITS[variant])


def test_each_variant_has_a_file_of_its_own(tmp_path):
    assert len({fatbin(variant, tmp_path) for variant in EDITS}) == len(EDITS)


def test_variants_are_chosen_by_their_names():
    assert chosen("") == [BARE, *EDITS, PREFER_L1]
    assert chosen(";".join(EDITS)) == [BARE, *EDITS]
    with pytest.raises(SystemExit, match="there is no 'tuch'; there are touch; empty"):
        chosen("touch;tuch")
