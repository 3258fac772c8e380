-- What machines say of themselves, by the digest of their fingerprints.
SELECT machine_info['fingerprint'] AS digest, any(machine_info)
FROM torchperf_points
WHERE timestamp >= {since:UInt64} AND digest != ''
GROUP BY digest
