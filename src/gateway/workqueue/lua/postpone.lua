-- Sets the scores of keys, each only if it has not changed since it was read: a run may have ended in between and have
-- set a new time. If several gateways have read the same score, one of them changes it.
--
-- KEYS[1] ZSET
-- ARGV[1] new score
-- then    two each: key, score as it was read
--
-- Answer: the places of the keys whose scores were set, from 0.

local moved = {}
for at = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', KEYS[1], ARGV[1], ARGV[at])
    moved[#moved + 1] = (at - 2) / 2
  end
end
return moved
