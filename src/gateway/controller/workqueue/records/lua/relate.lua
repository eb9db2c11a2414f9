-- Replaces the rules of a key's related objects, while its run is in flight, or while it has none.
--
-- ARGV[1] key
-- ARGV[2] run; empty: the key must have none in flight
-- then    rules, each as JSON in its canonical form; none removes all
--
-- Answer: {1 if one of the rules is new for the key, else 0; how much it cost: a member of the index that has changed
-- counts as one, a member that was only looked at as a quarter}. Nothing was done when another run is in flight.

local key = ARGV[1]
local related, related_index = KEYS[1] .. ':related', KEYS[1] .. ':related-index'
if (redis.call('HGET', KEYS[1] .. ':key:' .. key, 'run') or '') ~= ARGV[2] then return { 0, 0 } end
local before = redis.call('HGET', related, key)
local after = table.concat(ARGV, '\n', 3)
if (before or '') == after then return { 0, 0 } end

local LOOKED_AT = 0.25
local known, left, is_new, cost = {}, {}, 0, 0

-- The members of the index for one rule: one for each name, or one without a name.
local function each_member(text, visit)
  local rule = cjson.decode(text)
  local start = rule.apiVersion .. '/' .. rule.kind .. '\n' .. (rule.namespace or '') .. '\n'
  local names = rule.names or { '' }
  for _, name in ipairs(names) do visit(start .. name .. '\n' .. key) end
  cost = cost + LOOKED_AT * #names
end

for text in string.gmatch(before or '', '[^\n]+') do
  known[text] = true
  each_member(text, function(member) left[member] = true end)
end
for at = 3, #ARGV do
  if not known[ARGV[at]] then is_new = 1 end
  each_member(ARGV[at], function(member)
    if left[member] then
      left[member] = nil
    else
      cost = cost + redis.call('ZADD', related_index, 0, member)
    end
  end)
end
for member in pairs(left) do cost = cost + redis.call('ZREM', related_index, member) end
if after == '' then redis.call('HDEL', related, key) else redis.call('HSET', related, key, after) end
return { is_new, math.ceil(cost) }
