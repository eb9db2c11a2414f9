-- Deletes dead letters. A key that has been added since still runs; only its failures are deleted.
--
-- ARGV[1] now
-- then    keys
--
-- Answer: how many were dead letters.

local dropped = 0
local dead, records = KEYS[1] .. ':dead', KEYS[1] .. ':key:'
local history, idle = KEYS[1] .. ':history:', KEYS[1] .. ':resting'
for at = 2, #ARGV do
  local key = ARGV[at]
  if redis.call('ZREM', dead, key) == 1 then
    redis.call('HDEL', records .. key, 'dead', 'failures')
    redis.call('UNLINK', history .. key)
    -- All that may be left is a barrier, which stays until it has passed (forget.lua).
    if redis.call('HEXISTS', records .. key, 'barrier') == 1 then redis.call('ZADD', idle, ARGV[1], key) end
    dropped = dropped + 1
  end
end
return dropped
