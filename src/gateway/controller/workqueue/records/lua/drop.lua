-- Deletes dead letters. A key that has been added since still runs; only its failures are deleted.
--
-- KEYS[1] dead ZSET
-- KEYS[2] prefix of a key's record HASH
-- KEYS[3] prefix of a key's history LIST
-- KEYS[4] resting ZSET
-- ARGV[1] now
-- then    keys
--
-- Answer: how many were dead letters.

local dropped = 0
for at = 2, #ARGV do
  local key = ARGV[at]
  if redis.call('ZREM', KEYS[1], key) == 1 then
    redis.call('HDEL', KEYS[2] .. key, 'dead', 'failures')
    redis.call('UNLINK', KEYS[3] .. key)
    -- All that may be left is a barrier, which stays until it has passed (forget.lua).
    if redis.call('HEXISTS', KEYS[2] .. key, 'barrier') == 1 then redis.call('ZADD', KEYS[4], ARGV[1], key) end
    dropped = dropped + 1
  end
end
return dropped
