lower(hex(substring(SHA256(arrayStringConcat(arrayMap(
        name -> concat(toString(length(name)), ':', name),
        [repo, benchmark, model, mode, dtype, backend, device, arch, metric]
    ))), 1, 5)))
