"""Names of accelerators in run files. Called by engines that inspect nodes, and by `tarmac doctor`."""

import re


def slot_type(product: str) -> str:
    """A product's name as people write it in a run file: "NVIDIA A100-SXM4-80GB" is `a100_80gb`.

    The model and its variant (memory of an A100, "Ti", "Super") stay; the maker, the brand and the form
    factor are removed.
    """
    words = re.split(r"[\s_-]+", product.strip().lower())
    noise = (
        r"nvidia|amd|tesla|quadro|geforce|graphics|laptop|gpu|gen|generation|pcie?|sxm\d?|hbm\d?e?|nvl?|oam"
    )
    names = [word for word in words if word and not re.fullmatch(noise, word)]
    name = "_".join(names)
    name = re.sub(r"^rtx_(?=a\d)", "", name)
    name = re.sub(r"^(rtx|gtx)_(?=\d)", r"\1", name)
    name = re.sub(r"(?<=\d)_(ti|super)(?![a-z])", r"\1", name)
    if not name.startswith("a100"):  # the only model that people distinguish by its memory
        name = re.sub(r"_\d+gb(_.*)?$", "", name)
    return re.sub(r"[^a-z0-9_]", "", name) or "gpu"
