-- Replaces the rules of a key's related objects, while its run is in flight, or while it has none.
--
-- KEYS[1] record HASH of the key
-- KEYS[2] related HASH
-- KEYS[3] related index ZSET
-- ARGV[1] key
-- ARGV[2] run; empty: the key must have none in flight
-- then    rules, each as JSON in its canonical form; none removes all
--
-- Answer: 1 if one of the rules is new for the key, else 0; also when another run is in flight, which changes nothing.

if (redis.call('HGET', KEYS[1], 'run') or '') ~= ARGV[2] then return 0 end
local key = ARGV[1]
local before = redis.call('HGET', KEYS[2], key)
local after = table.concat(ARGV, '\n', 3)
if (before or '') == after then return 0 end

-- The members of the index for one rule: one for each name, or one without a name.
local function members(text)
  local rule = cjson.decode(text)
  local start = rule.apiVersion .. '/' .. rule.kind .. '\n' .. (rule.namespace or '') .. '\n'
  local found = {}
  for _, name in ipairs(rule.names or { '' }) do found[#found + 1] = start .. name .. '\n' .. key end
  return found
end

local known = {}
for text in string.gmatch(before or '', '[^\n]+') do
  known[text] = true
  for _, member in ipairs(members(text)) do redis.call('ZREM', KEYS[3], member) end
end
local is_new = 0
for at = 3, #ARGV do
  if not known[ARGV[at]] then is_new = 1 end
  for _, member in ipairs(members(ARGV[at])) do redis.call('ZADD', KEYS[3], 0, member) end
end
if after == '' then redis.call('HDEL', KEYS[2], key) else redis.call('HSET', KEYS[2], key, after) end
return is_new
