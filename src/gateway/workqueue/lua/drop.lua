-- Forgets dead letters. A key that has been added meanwhile is to be run and keeps that; its failures are forgotten.
--
-- KEYS[1] dead ZSET
-- KEYS[2] what a key is appended to, to name its record HASH
-- KEYS[3] what a key is appended to, to name its history LIST
-- ARGV    keys
--
-- Answer: how many were dead letters.

local dropped = 0
for _, key in ipairs(ARGV) do
  if redis.call('ZREM', KEYS[1], key) == 1 then
    redis.call('HDEL', KEYS[2] .. key, 'dead', 'failures')
    redis.call('UNLINK', KEYS[3] .. key)
    -- All that may be left is a barrier, which need not stay (finish.lua).
    if redis.call('HEXISTS', KEYS[2] .. key, 'queuedAt') == 0 and redis.call('HEXISTS', KEYS[2] .. key, 'run') == 0 then
      redis.call('PEXPIRE', KEYS[2] .. key, 3600000)
    end
    dropped = dropped + 1
  end
end
return dropped
