-- The seconds that the newest runs of each case took, as their status says; what failed took time, too.
WITH toFloat64OrZero(metric_info['seconds']) AS seconds
SELECT
    torch_device, model, mode, dtype, backend,
    arrayMap(
        run -> run.2,
        arraySlice(arraySort(groupUniqArray((timestamp, seconds))), -toInt64({last:UInt64}))
    ) AS newest
FROM /* source */
WHERE metric = 'status' AND benchmark = {benchmark:String} AND timestamp >= {since:UInt64}
    AND seconds > 0 AND isFinite(seconds)
GROUP BY torch_device, model, mode, dtype, backend
ORDER BY torch_device, model, mode, dtype, backend
