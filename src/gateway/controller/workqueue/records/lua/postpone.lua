-- Sets the scores of keys, each only if it has not changed since it was read: a run may have ended in between and have
-- set a new time. If several gateways have read the same score, one of them changes it.
--
-- KEYS[1] ZSET
-- KEYS[2] prefix of a key's record HASH, for keys that wait for their barriers. The record gets heldAt, the
--         beginning of the wait, which the start of its run reports.
-- ARGV[1] new score
-- then    two each: key, score as it was read
--
-- Answer: the places of the keys whose scores were set, from 0.

local moved = {}
for at = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', KEYS[1], ARGV[1], ARGV[at])
    if KEYS[2] then
      local record = KEYS[2] .. ARGV[at]
      -- A record that cannot be read must not stop the other keys. The start of its key reports it.
      local known = redis.pcall('HMGET', record, 'barrierAt', 'heldAt')
      if known[1] and not known[2] then
        redis.call('HSET', record, 'heldAt', math.max(math.floor(score), tonumber(known[1])))
      end
    end
    moved[#moved + 1] = (at - 2) / 2
  end
end
return moved
