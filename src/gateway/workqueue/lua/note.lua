-- Notes on the records of some keys that they were added, when and why, before their jobs are added.
--
-- KEYS[1] what a key is appended to, to name its record HASH (same hash tag)
-- ARGV[1] now
-- then    two each: key, reasons (JSON objects joined by newlines, or '')
--
-- Answer: nothing. Reasons beyond 2 KiB are dropped; the time of the first add stays.

for at = 2, #ARGV, 2 do
  local record, reasons = KEYS[1] .. ARGV[at], ARGV[at + 1]
  redis.call('HSETNX', record, 'queuedAt', ARGV[1])
  redis.call('PERSIST', record)
  if reasons ~= '' then
    local known = redis.call('HGET', record, 'reasons')
    if not known then
      redis.call('HSET', record, 'reasons', reasons)
    elseif #known + #reasons < 2048 then
      redis.call('HSET', record, 'reasons', known .. '\n' .. reasons)
    end
  end
end
