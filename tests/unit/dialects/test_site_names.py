"""Names of other sites become those of here, wherever a spec has them."""

from __future__ import annotations

from tarmac.dialects.site_names import NO_NAMES, Names, use_local_names
from tarmac.model.codec import replace
from tarmac.systems.registry import read

NAMES = Names(
    clusters={"r1z1": "local", "gone": ""},
    pools={"compute-pool": "big"},
    slot_types={"A100_40GB": "a100_80gb"},
)


def test_every_name_is_replaced_and_said() -> None:
    text = "cluster: r1z1\npool: compute-pool\nslots: a100_40gb:8\ncommand: echo\n"
    spec, said = use_local_names(read(text, filename="a.yaml", directory="/").spec, NAMES)
    assert (spec.target.cluster, spec.target.pool, spec.roles[0].slot_type) == ("local", "big", "a100_80gb")
    assert said == (
        "cluster 'r1z1' is 'local' here, as [names] in the settings says",
        "pool 'compute-pool' is 'big' here, as [names] in the settings says",
        "slot type 'a100_40gb' is 'a100_80gb' here, as [names] in the settings says",
    )


def test_types_of_processes_too_and_a_name_that_may_be_any() -> None:
    text = "cluster: gone\nresources: a100_40gb:2\ncommand: echo\n"
    spec, said = use_local_names(read(text, filename="a.yaml", directory="/").spec, NAMES)
    assert spec.target.cluster is None
    assert spec.roles[0].processes[0].resources.slot_type == "a100_80gb"
    assert said[0] == "cluster 'gone' may be any here, as [names] in the settings says"


def test_what_is_not_named_stays() -> None:
    spec = read("cluster: x\nslots: h100:8\ncommand: echo\n", filename="a.yaml", directory="/").spec
    assert use_local_names(spec, NAMES) == (spec, ())
    mapped = replace(spec, target=replace(spec.target, cluster="r1z1"))
    assert use_local_names(mapped, NO_NAMES) == (mapped, ())
